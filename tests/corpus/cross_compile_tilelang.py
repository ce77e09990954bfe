"""Lower every TileLang CUDA kernel of the corpus for sm_90a; prints {problem: {kernel: shared bytes}}.

Each ModelNew runs on meta tensors at its full sizes, with tilelang.compile replaced by a function that lowers.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from typing import Any

import tilelang
import torch
from kernelwright.corpus import find_problem, list_kernels
from kernelwright.evaluators.workers.modules import ProblemModule
from tilelang import tvm
from tvm.target import Target

TARGET = {"kind": "cuda", "arch": "sm_90a"}


def lower(function: Any) -> int:
    """Lower to CUDA source; the bytes of dynamic shared memory."""
    target = Target(TARGET)
    # Layout inference asks for the target of the context, whatever the argument says.
    with tvm.transform.PassContext(opt_level=3), target:
        artifact = tilelang.lower(function, target=target)
    assert "__global__" in artifact.kernel_source
    (kernel,) = artifact.device_mod.functions.values()
    return int(kernel.attrs.get("dyn_shared_memory_buf", 0))


def main() -> None:
    found: dict[str, dict[str, int]] = {}
    for file in list_kernels("tilelang"):
        kernels = found.setdefault(file.problem, {})

        def compile(
            function: Any, out_idx: list[int], kernels: dict[str, int] = kernels, **_: Any
        ) -> Callable[..., torch.Tensor]:
            kernels[str(function.attrs["global_symbol"])] = lower(function)
            buffers = [function.buffer_map[parameter] for parameter in function.params]
            (output,) = (buffers[i] for i in out_idx)
            shape, dtype = [int(extent) for extent in output.shape], getattr(torch, str(output.dtype))
            return lambda *_: torch.empty(shape, dtype=dtype, device="meta")

        tilelang.compile = compile
        problem = find_problem(file.problem)
        module = ProblemModule(problem.path, {}, "meta")
        spec = importlib.util.spec_from_file_location("kernel", file.path)
        assert spec is not None
        assert spec.loader is not None
        kernel = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(kernel)
        with torch.device("meta"), torch.no_grad():
            kernel.ModelNew(*module.init_inputs())(*module.inputs(0))
    json.dump(found, sys.stdout)


main()
