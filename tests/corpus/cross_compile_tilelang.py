"""Lower every TileLang CUDA kernel of the corpus for sm_90a; prints {problem: {kernel: shared bytes}}.

Raises an exception where a launch plan could not contain a kernel.

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
from kernelwright.core.launch_plan import KernelCode
from kernelwright.corpus import find_problem, list_kernels
from kernelwright.evaluators.replay.tir.gpu import require_device_code
from kernelwright.evaluators.workers.modules import ProblemModule
from kernelwright.tests.evaluators.replay.host_calls import assert_ours_calls_the_same
from tilelang import tvm
from tilelang.backend.module import create_backend_context
from tilelang.engine.lower import device_codegen_without_compile, lower_to_host_device_ir
from tvm.target import Target

TARGET = {"kind": "cuda", "arch": "sm_90a"}


def lower(function: Any) -> int:
    """Lower to CUDA source; the bytes of dynamic shared memory."""
    name = str(function.attrs["global_symbol"])
    # Layout inference asks for the target of the context.
    with tvm.transform.PassContext(opt_level=3), Target(TARGET):
        context = create_backend_context(TARGET, None, "auto")
        host, device, *_ = lower_to_host_device_ir(function, context)
        code = KernelCode(name=name, kind="tir", text="", entry=name, parameters=())
        source = device_codegen_without_compile(device, context).inspect_source()
        require_device_code(code, source)
    assert_ours_calls_the_same(function, host, device)
    assert "__global__" in source
    (kernel,) = device.functions.values()
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
