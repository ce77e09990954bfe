"""Triton: launches, compiled kernels, interpreter, driver."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...core import Target
from ...core.launch_plan import KernelCode
from .base import (
    Around,
    CompiledKernel,
    Counted,
    LanguageSupport,
    Launch,
    Launched,
    Recorded,
    UntraceableCall,
    replaced,
)
from .cubin import read_binary

# Of a compiled Triton kernel, attributes that its code does not show; which of them exist depends on the version.
_SETTINGS = (
    "num_warps", "num_ctas", "cluster_dims", "shared", "enable_fp_fusion", "ptx_options", "launch_pdl",
    "launch_cooperative_grid", "global_scratch_size", "profile_scratch_size",
)  # fmt: skip


_LAUNCHED = (
    "num_warps", "num_ctas", "shared", "enable_fp_fusion", "ptx_options", "launch_pdl", "launch_cooperative_grid",
    "tensordesc_meta", "global_scratch_size", "global_scratch_align", "profile_scratch_size", "profile_scratch_align",
)  # fmt: skip
"""What `replay.ptx` needs of it."""


class TritonSupport(LanguageSupport):
    """On a CPU its interpreter runs, which checks kernels and compiles nothing."""

    cpu_environment = {"TRITON_INTERPRET": "1"}
    interpreter_remarks = {"triton_interpreter": "tl.dot of bf16 is computed in fp32; autotuners take the first config"}
    compiler_paths = ("/triton/compiler/", "/triton/backends/")
    pinned_modules = ("triton.testing", "triton.runtime.jit")
    pinned_classes = (
        ("triton.runtime.jit", "JITFunction"),
        ("triton.runtime.jit", "KernelInterface"),
        ("triton.compiler.compiler", "CompiledKernel"),
        ("triton.runtime.interpreter", "InterpretedFunction"),
        ("triton.runtime.interpreter", "GridExecutor"),
    )

    records = (Target.CUDA,)
    helpers = ("*/cuda_utils*.so",)

    def preload(self) -> None:
        """Import the compiler, and read Triton's own files for the keys of its cache: half a second together."""
        with contextlib.suppress(ImportError, OSError):
            importlib.import_module("triton.compiler.code_generator")
            from triton.runtime.cache import triton_key

            triton_key()

    def prepare(self, device: str) -> None:
        """On a CPU, mend the interpreter: products of bf16, and autotuners, which ask a driver for a clock.

        The interpreter keeps bf16 as whole numbers and multiplies those. What an autotuner would choose by time means
        nothing there.
        """
        if device != "cpu":
            return
        try:
            from triton.runtime.autotuner import Autotuner
            from triton.runtime.interpreter import InterpreterBuilder
        except ImportError:
            return
        InterpreterBuilder.create_dot = _dot_in_fp32(InterpreterBuilder.create_dot)
        Autotuner.do_bench = property(lambda tuner: tuner._do_bench or _untimed)

    def capture_launches(self, launched: Launched, device: str) -> None:
        """Compile into the disk cache, and report; the interpreter's launches are not captured."""
        if device == "cpu":
            return
        from triton.runtime.jit import JITFunction

        really_run = JITFunction.run

        def run(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
            kernel = really_run(self, *args, grid=grid, warmup=True, **options)
            if not warmup:
                bound = _bound(self, args, options)
                constants = {p.name for p in self.params if p.is_constexpr}
                launched(
                    Launch(
                        code=ptx_code(kernel.asm["ptx"], kernel.metadata.name),
                        settings={name: getattr(kernel.metadata, name, None) for name in _SETTINGS},
                        grid=_grid(grid, bound),
                        arguments=[value for name, value in bound.items() if name not in constants],
                        shared_bytes=kernel.metadata.shared,
                    )
                )
            return kernel

        JITFunction.run = run

    def pretend(self, properties: Mapping[str, Any]) -> None:
        """Set a driver that describes the GPU."""
        from triton.backends.compiler import GPUTarget
        from triton.runtime.driver import driver

        capability = properties["major"] * 10 + properties["minor"]
        driver.set_active(_Driver(GPUTarget("cuda", capability, properties.get("warp_size", 32))))

    def takes_addresses(self, caller: Mapping[str, Any]) -> bool:
        """Triton specialises a kernel on the alignment of its arguments."""
        return "specialize_impl" in caller or str(caller.get("__name__")).startswith("triton.")

    @contextlib.contextmanager
    def counting(self, counted: Counted) -> Iterator[None]:
        """`JITFunction.run` and the interpreter's, and launches of what `warmup` compiled."""
        try:
            from triton.compiler.compiler import CompiledKernel as Compiled
            from triton.runtime.interpreter import InterpretedFunction
            from triton.runtime.jit import JITFunction
        except ImportError:
            yield
            return

        def counting(really: Any) -> Any:
            def run(self: Any, *args: Any, warmup: bool = False, **options: Any) -> Any:
                if warmup:
                    return really(self, *args, warmup=warmup, **options)
                name = str(getattr(self, "__name__", "kernel"))
                return counted(name, really)(self, *args, warmup=warmup, **options)

            return run

        def counting_grids(really: Any) -> Any:
            return lambda self, grid: counted(str(getattr(self, "name", "kernel")), really(self, grid))

        with (
            replaced(JITFunction, "run", counting),
            replaced(InterpretedFunction, "run", counting),
            replaced(Compiled, "__getitem__", counting_grids),
        ):
            yield

    @contextlib.contextmanager
    def recording(self, recorded: Recorded) -> Iterator[None]:
        """Launches on a GPU: their PTX, and the arguments that it takes."""
        try:
            from triton.compiler.compiler import CompiledKernel as Compiled
            from triton.runtime.jit import JITFunction
        except ImportError:
            yield
            return

        def recording(really: Any) -> Any:
            def run(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
                kernel = really(self, *args, grid=grid, warmup=warmup, **options)
                if not warmup and kernel is not None:
                    _report(recorded, kernel, _bound(self, args, options), grid)
                return kernel

            return run

        def recording_grids(really: Any) -> Any:
            def getitem(self: Any, grid: Any) -> Any:
                launch = really(self, grid)

                def run(*args: Any, **options: Any) -> Any:
                    result = launch(*args, **options)
                    _report(recorded, self, dict(zip(self.src.signature, args, strict=False)), grid)
                    return result

                return run

            return getitem

        with replaced(JITFunction, "run", recording), replaced(Compiled, "__getitem__", recording_grids):
            yield

    @contextlib.contextmanager
    def interpreting(self, around: Around) -> Iterator[None]:
        """`GridExecutor` runs a launch of the interpreter."""
        try:
            from triton.runtime.interpreter import GridExecutor
        except ImportError:
            yield
            return

        def within(really: Any) -> Any:
            def launch(self: Any, *args: Any, **kwargs: Any) -> Any:
                with around():
                    return really(self, *args, **kwargs)

            return launch

        with replaced(GridExecutor, "__call__", within):
            yield

    def compiled_kernels(self) -> Iterator[CompiledKernel]:
        """Those that Triton holds for a GPU, loaded or not."""
        module: Any = sys.modules.get("triton.compiler.compiler")
        if module is None:
            return
        for one in gc.get_objects():
            # By type() and not isinstance(): the latter asks lazy modules for their class, which imports them.
            if type(one) is module.CompiledKernel and "cubin" in one.asm:
                yield _triton_kernel(one)


def _bound(function: Any, args: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a launch by the names of all parameters."""
    given = {**dict(zip(function.arg_names, args, strict=False)), **options}
    return {p.name: given.get(p.name, p.default) for p in function.params}


def _grid(grid: Any, bound: Mapping[str, Any]) -> list[int]:
    return [int(extent) for extent in (grid(bound) if callable(grid) else grid)]


def _report(recorded: Recorded, kernel: Any, bound: Mapping[str, Any], grid: Any) -> None:
    """Report a launch of a compiled kernel; `bound` has its arguments by name, constants among them."""
    types = {name: form for name, form in kernel.src.signature.items() if form != "constexpr"}
    if not all(isinstance(form, str) for form in types.values()):
        raise UntraceableCall("an argument of a kernel that is a tuple")
    metadata = kernel.metadata
    code = KernelCode(
        name=kernel.src.fn.__name__,
        kind="ptx",
        text=kernel.asm["ptx"],
        entry=metadata.name,
        parameters=tuple(types.values()),
        settings={name: _plain(getattr(metadata, name)) for name in _LAUNCHED if hasattr(metadata, name)},
    )
    # A tensor that is read as another dtype is wrapped; the PTX knows the dtype.
    values = [
        getattr(bound[name], "base", bound[name]) if form[0] == "*" else bound[name] for name, form in types.items()
    ]
    recorded(code, values, _grid(grid, bound))


def _plain(value: Any) -> Any:
    """Tuples as lists, as JSON returns them."""
    return json.loads(json.dumps(value))


def _triton_kernel(kernel: Any) -> CompiledKernel:
    metadata = kernel.metadata
    registers, words = getattr(kernel, "n_regs", None), getattr(kernel, "n_spills", None)
    if registers is None or words is None:  # it was compiled and not loaded
        (read,) = read_binary(kernel.asm["cubin"])
        registers, spills = read.registers, read.spills
    else:
        spills = 4 * words  # Triton divides the driver's count of bytes
    threads = metadata.num_warps * metadata.target.warp_size
    used = matrix_instructions(kernel.asm["ptx"]) if "ptx" in kernel.asm else None
    return CompiledKernel(metadata.name, registers, spills, metadata.shared, threads, used)


def matrix_instructions(ptx: str) -> tuple[str, ...]:
    """Return the matrix instructions of a kernel's PTX with the type of their operands, such as 'wgmma bf16'."""
    return tuple(sorted({f"{kind} {operand}" for kind, operand in _MATRIX.findall(ptx)}))


# 'wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16', 'mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32',
# 'tcgen05.mma.cta_group::1.kind::tf32': the first operand's type.
_MATRIX = re.compile(
    r"\b(wgmma|mma|tcgen05)\.(?:mma_async|sync|mma)\b[^\n;]*?"
    r"\.(?:kind::|m\d+n\d+k\d+(?:\.(?:row|col)){0,2}\.\w+\.)(\w+)"
)


def _untimed(call: object, quantiles: Sequence[float]) -> list[float]:
    """Stand for Triton's benchmark: all configs take as long, so that the first is chosen."""
    return [0.0 for _ in quantiles]


def _dot_in_fp32(really: Any) -> Any:
    """Return the interpreter's product with operands and accumulator in bf16 widened to fp32."""
    import numpy as np
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def widened(handle: Any) -> Any:
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        return TensorHandle((handle.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    def create_dot(self: Any, a: Any, b: Any, d: Any, *options: Any) -> Any:
        found = really(self, widened(a), widened(b), widened(d), *options)
        return self.create_fp_trunc(found, tl.bfloat16) if d.dtype.scalar == tl.bfloat16 else found

    return create_dot


def ptx_code(ptx: str, name: str) -> str:
    """PTX without what does not change the machine code: comments, line numbers, debug data, the kernel's name."""
    code = re.sub(r"//[^\n]*", "", ptx)
    code = re.sub(r"^\s*\.section\s+\.debug_\w+\s*\{[^}]*\}", "", code, flags=re.MULTILINE)
    code = re.sub(r"^\s*(\.loc|\.file)\s[^\n]*", "", code, flags=re.MULTILINE)
    code = re.sub(r"^\s*\$L__(tmp|func_|info_|debug_)\w*:", "", code, flags=re.MULTILINE)
    code = re.sub(rf"\b{re.escape(name)}(?=\b|_param)", "kernel", code)
    return "\n".join(line.strip() for line in code.splitlines() if line.strip())


class _Driver:
    """Stands for Triton's driver: knows what to compile for, and refuses to load or to run."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cuda", 0)

    def __getattr__(self, name: str) -> Any:
        raise UntraceableCall(f"an answer of Triton's driver ({name})")


SUPPORT = TritonSupport()
