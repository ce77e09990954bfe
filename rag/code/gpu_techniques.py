"""Techniques of Triton and TileLang kernels for GPUs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import starmap

from .accumulators import allocations, any_call, elements, first_argument
from .flow import PRODUCTS
from .grid_techniques import GRID_RECOGNIZERS
from .program import DeviceCode, Loop, Program, base, is_tile_product, products
from .strides import Stride, accesses

_TENSOR_CORES = PRODUCTS | {"ptx_mma", "mma_gemm_blockscaled", "tcgen05_mma", "wgmma_mma", "tvm_mma_sync"}
_DESCRIPTORS = {
    "make_tensor_descriptor",
    "triton.tools.tensor_descriptor.TensorDescriptor",
    "triton.tools.tensor_descriptor.TensorDescriptor.from_tensor",
}
_WARP = 32


def _tensor_cores(program: Program) -> bool:
    """Products by matrix instructions; in exact fp32, `tl.dot` has none to use."""
    for code in program.kernels.values():
        for call in code.calls:
            exact = program.value(call.keyword("input_precision"), code) == "ieee"
            if call.op in _TENSOR_CORES and not exact:
                return True
    return False


def _shared_memory(program: Program) -> bool:
    """Tiles that are allocated there, or that Triton puts there: operands of a product in a loop, turned tiles."""
    for code in program.kernels.values():
        if code.grid is not None and "alloc_shared" in code.ops():
            return True
        if any(call.op == "dot" for loop in code.loops for call in code.calls[loop.calls]):
            return True
        operands = {id(arg) for call in code.calls if call.op == "dot" for arg in call.node.args}
        if any(call.op == "trans" and id(call.node) not in operands for call in code.calls):
            return True
    return False


def _pipelining(program: Program) -> bool:
    """More than one stage, for a loop that loads."""
    for code in program.kernels.values():
        loading = [loop for loop in code.loops if _loads(code, loop)]
        for loop in loading:
            stages = loop.call.keyword("num_stages") if loop.call else None
            if loop.kind == "Pipelined" and _number(program, stages, code, default=0) >= 1:
                return True
            if loop.kind == "range" and _number(program, stages, code, default=1) > 1:
                return True
        launches = [launch for launch in program.launches if launch.kernel == code.name]
        given = [launch.keywords["num_stages"] for launch in launches if "num_stages" in launch.keywords]
        configs = [call.keyword("num_stages") for call in program.host if call.op == "triton.Config"]
        given += [stages for stages in configs if stages is not None]
        if loading and code.grid is None and any(_number(program, stages, None, default=2) > 1 for stages in given):
            return True
    return False


def _loads(code: DeviceCode, loop: Loop) -> bool:
    return any(call.op in ("load", ".load", "copy", "tma_copy", "async_copy") for call in code.calls[loop.calls])


def _number(program: Program, node: ast.expr | None, code: DeviceCode | None, default: int) -> int:
    """The value of an expression where it is known; a variable that is not is taken as 2, what is absent as default."""
    if node is None:
        return default
    value = program.value(node, code)
    return value if isinstance(value, int) else 2


def _coalesced(program: Program) -> bool:
    """Every access by many lanes goes to neighbouring addresses."""
    found = [stride for code in program.kernels.values() for stride, _ in accesses(program, code)]
    return Stride.UNIT in found and Stride.WIDE not in found


def _vectorized(program: Program) -> bool:
    """Coalesced accesses of several elements per thread; in products the copy engines decide that."""
    if any(loop.kind == "vectorized" for code in program.kernels.values() for loop in code.loops):
        return True
    if not _coalesced(program) or any_call(program, *PRODUCTS):
        return False
    for code in program.kernels.values():
        warps = [x.keywords.get("num_warps") for x in program.launches if x.kernel == code.name]
        threads = _WARP * max((_number(program, node, None, default=4) for node in warps), default=4)
        for stride, count in accesses(program, code):
            if stride is Stride.UNIT and count is not None and count >= 2 * threads:
                return True
        tiles = allocations(code, "alloc_fragment", "alloc_local")
        if any(call.op == "copy" and {base(arg) for arg in call.node.args} & set(tiles) for call in code.calls):
            return True
    return False


def _register_tile(program: Program) -> bool:
    """A two-dimensional tile of sums with several elements per thread, that stays in registers over a loop."""
    for code in program.kernels.values():
        threads = _number(program, code.grid.keyword("threads"), code, default=128) if code.grid else 1
        tiles = allocations(code, "alloc_fragment", "zeros")
        for loop in code.loops:
            added = [a for a in code.assignments[loop.assignments] if a.op == "Add"]
            sums = {a.name for a in added if any(starmap(is_tile_product, products(a.value)))}
            for call in code.calls[loop.calls]:
                if call.op in PRODUCTS:
                    sums |= {base(arg) for arg in call.node.args}
            for name in sums & set(tiles):
                sizes = elements(first_argument(tiles[name]), lambda node, c=code: program.value(node, c))
                if len(sizes) == 2 and _product(sizes, unknown=64) >= 2 * threads:
                    return True
    return False


def _product(sizes: list[int | None], unknown: int) -> int:
    total = 1
    for size in sizes:
        total *= unknown if size is None else size
    return total


def _tma(program: Program) -> bool:
    host = {call.op for call in program.host}
    in_kernels: Iterator[str] = (op for code in program.kernels.values() for op in code.ops())
    return any(op in _DESCRIPTORS or op.startswith(("tma_", "ptx_cp_async_bulk")) for op in [*host, *in_kernels])


def _warp_specialized(program: Program) -> bool:
    for code in program.kernels.values():
        if code.ops() & {"ws", "warp_specialize", "annotate_ws_schedule", "WarpSpecialize"}:
            return True
        for loop in code.loops:
            if loop.call and program.value(loop.call.keyword("warp_specialize"), code):
                return True
    return False


def _tuned_launch(program: Program) -> bool:
    """Triton's own autotuner chooses."""
    return any(call.op == "triton.autotune" for call in program.host)


GPU_RECOGNIZERS: dict[str, Callable[[Program], bool]] = {
    **GRID_RECOGNIZERS,
    "shared-memory": _shared_memory,
    "pipelining": _pipelining,
    "tensor-cores": _tensor_cores,
    "vectorized-access": _vectorized,
    "coalescing": _coalesced,
    "register-tiling": _register_tile,
    "tma": _tma,
    "warp-specialization": _warp_specialized,
    "launch-tuning": _tuned_launch,
}
