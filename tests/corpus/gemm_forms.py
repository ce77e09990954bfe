"""Run the shipped GEMM kernels: `interpreted` prints the largest error of each form, `compiled` what sm_90 code has.

A program of its own: TRITON_INTERPRET in its environment is read when Triton is imported.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import triton
from kernelwright.corpus import find_kernel, find_problem
from kernelwright.corpus.functions.triton_cache_program import _Driver
from kernelwright.evaluators.correctness.fp64 import in_fp64
from kernelwright.evaluators.languages.triton_interpreter import fix_interpreter
from kernelwright.evaluators.workers.modules import ProblemModule
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

TYPES = {
    **{torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32", torch.float8_e4m3fn: "fp8e4nv"},
    torch.int32: "i32",
}
FORMS = [("plain", 1), ("plain", 2), ("persistent", 1), ("tma", 1)]
MULTIPLY = (
    *("gemm_kernel", "blockscale_kernel", "persistent_kernel", "expert_kernel"),
    *("tma_kernel", "tma_tile_kernel"),
)


def module(source: str) -> Any:
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
        file.write(source)
    spec = importlib.util.spec_from_file_location("loaded", file.name)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def cases(compact: bool) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    layouts = [("TN", "float16")] if compact else [("TT", "float16"), ("NN", "float16"), ("NT", "float16")]
    for layout, dtype in [*layouts, ("TN", "float8_e4m3fn")]:
        # Parts of K and the persistent form read their operands as the plain form does.
        few = FORMS[compact:] if compact or layout == "TT" else (FORMS[0], FORMS[3])
        for variant, split in (*few, ("tma_tile", 1)):
            config = {"BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 32, "VARIANT": variant, "SPLIT_K": split}
            yield "gemm", {"LAYOUT": layout, "DTYPE": dtype}, config
    for variant, split in FORMS[compact:]:
        for n, k in [(64, 128)] if compact else [(64, 128), (256, 64)]:
            yield "a8w8_blockscale", {}, {"BLOCK_SIZE_N": n, "BLOCK_SIZE_K": k, "VARIANT": variant, "SPLIT_K": split}
    for n in (64, 256):
        yield "a8w8_blockscale", {}, {"BLOCK_SIZE_N": n, "BLOCK_SIZE_K": 128, "VARIANT": "tma_tile"}
    for dtype in ("bfloat16", "float8_e4m3fn"):
        yield "moe", {"DTYPE": dtype}, {"BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 32}
    if not compact:
        # More experts than tokens, extents that no tile divides, and a tile with several scales.
        few = {"M": 3, "E": 9, "K": 40, "TOP_K": 3}
        yield "moe", {**few, "DTYPE": "float16"}, {"BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 32}
        few = {**few, "N": 150, "K": 200}
        yield "moe", {**few, "DTYPE": "float8_e4m3fn"}, {"BLOCK_SIZE_N": 256, "BLOCK_SIZE_K": 128}


def interpret() -> dict[str, float]:
    """The largest error of each form against fp64, as a share of the largest result."""
    fix_interpreter()
    found = {}
    for name, sizes, config in cases(compact=False):
        problem, kernel = find_problem(f"gemm/{name}").read(), find_kernel(f"gemm/{name}", "triton").read()
        tiny = {**problem.workloads["tiny"], **sizes}
        sized = ProblemModule(problem.path, tiny, "cpu")
        inputs, reference = sized.inputs(0), sized.model(0)
        (expected,) = in_fp64(reference)(inputs)
        bound = kernel.bind({"BLOCK_SIZE_M": 32, "GROUP_SIZE_M": 2, **config})
        model = module(bound.source).ModelNew(*sized.init_inputs())
        model.load_state_dict(reference.state_dict())
        result = model(*inputs)
        assert result.shape == expected.shape
        error = (result.double() - expected).abs().max() / expected.abs().max()
        found[f"{name} {sizes} {config}"] = float(error)
    return found


def described(binary: bytes, what: str) -> str:
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        run = subprocess.run([tool, what, file.name], capture_output=True, text=True, check=True)
    return run.stdout + run.stderr


def waits_for_each(binary: bytes) -> bool:
    """Return whether ptxas lets every matrix instruction wait for the one before."""
    code = described(binary, "-sass")
    products, begun = len(re.findall(r"\b[HQ]GMMA\b", code)), code.count("WARPGROUP.ARRIVE")
    return products > 1 and begun >= products


def stack_bytes(binary: bytes) -> int:
    """Return the bytes of local memory of a thread: what did not fit its registers."""
    return max(int(found) for found in re.findall(r"STACK:(\d+)", described(binary, "-res-usage")))


def compile_all() -> dict[str, list[Any]]:
    """Of each form the bytes of shared memory, the operands of matrix instructions, whether it copies in bulk, whether
    a load in its loop waits for the product, whether its matrix instructions wait for each other, and its stack."""
    found: dict[str, list[Any]] = {}
    label = ""

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
        given = dict(zip(self.arg_names, args, strict=False))
        given |= {name: options.pop(name) for name in list(options) if name in self.arg_names}
        signature: dict[str, str] = {}
        constants, attributes = {}, {}
        for i, parameter in enumerate(self.params):
            value = given[parameter.name]
            if parameter.is_constexpr or value is None:
                signature[parameter.name], constants[parameter.name] = "constexpr", value
            elif isinstance(value, TensorDescriptor):
                signature[parameter.name] = f"tensordesc<{TYPES[value.base.dtype]}{list(value.block_shape)}>"
            else:
                tensor = isinstance(value, torch.Tensor)
                signature[parameter.name] = f"*{TYPES[value.dtype]}" if tensor else "i32"
                if tensor or value % 16 == 0:
                    attributes[(i,)] = [["tt.divisibility", 16]]
        source = ASTSource(fn=self, signature=signature, constexprs=constants, attrs=attributes)
        launch = {name: options[name] for name in ("num_warps", "num_stages") if name in options}
        compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=launch)
        ptx = compiled.asm["ptx"]
        if self.fn.__name__ in MULTIPLY:
            operands = sorted(set(re.findall(r"wgmma\.mma_async[.\w]*\.f32\.(\w+)\.", ptx)))
            behind = compiled.asm["ttgir"].partition("warp_group_dot ")[2].partition("scf.yield")[0]
            late = "tt.load" in behind
            binary = compiled.asm["cubin"]
            bulk = "cp.async.bulk.tensor" in ptx
            figures = [compiled.metadata.shared, operands, bulk, late, waits_for_each(binary), stack_bytes(binary)]
            found[label] = figures

    driver.set_active(_Driver(["cuda", 90, 32]))
    JITFunction.run = run
    for name, sizes, config in cases(compact=True):
        label = f"{name} {sizes} {config}"
        problem, kernel = find_problem(f"gemm/{name}").read(), find_kernel(f"gemm/{name}", "triton").read()
        large = {"M": 128, "N": 256, "K": 512, **sizes}
        fp8 = "float8" in label
        blocks = {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128 if fp8 else 64, "NUM_WARPS": 4}
        if name == "gemm":
            # Half of the registers are accumulators: this is where ptxas gives up.
            blocks |= {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 128 if fp8 else 256, "NUM_WARPS": 8}
        elif name == "a8w8_blockscale":
            blocks = {"BLOCK_SIZE_M": 64, "NUM_WARPS": 4}
        bound = kernel.bind({**config, **blocks, "NUM_STAGES": 3})
        sized = ProblemModule(problem.path, large, "cpu")
        module(bound.source).ModelNew(*sized.init_inputs())(*sized.inputs(0))
    return found


if __name__ == "__main__":
    with torch.no_grad():
        json.dump(interpret() if sys.argv[1] == "interpreted" else compile_all(), sys.stdout)
