"""Lower the TileLang CUDA kernels of a folder, PROBLEM.py each, for sm_90a at the problems' sizes; needs no GPU.

    python lower_tilelang.py FOLDER

Each ModelNew runs on meta tensors, with tilelang.compile replaced by a function that lowers to CUDA source. Prints
{problem: {kernel: {shared: bytes, wgmma, tma}}}.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tilelang
import torch
from kernelwright.corpus import find_problem
from kernelwright.evaluators.workers.modules import ProblemModule
from tilelang import tvm
from tvm.target import Target

TARGET = {"kind": "cuda", "arch": "sm_90a"}


def lower(function: Any) -> dict[str, Any]:
    target = Target(TARGET)
    # Layout inference asks for the target of the context, whatever the argument says.
    with tvm.transform.PassContext(opt_level=3), target:
        artifact = tilelang.lower(function, target=target)
    (kernel,) = artifact.device_mod.functions.values()
    source = artifact.kernel_source
    shared = int(kernel.attrs.get("dyn_shared_memory_buf", 0))
    return {"shared": shared, "wgmma": "wgmma" in source, "tma": "tma_load" in source}


def torch_dtype(buffer: Any) -> torch.dtype:
    # TF32 lies in memory like fp32.
    found = getattr(torch, str(buffer.dtype).replace("custom[tfloat32]", "float32"))
    assert isinstance(found, torch.dtype)
    return found


def lowered(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}

    def compile(function: Any, out_idx: list[int], **_: Any) -> Callable[..., Any]:
        found[str(function.attrs["global_symbol"])] = lower(function)
        buffers = [function.buffer_map[parameter] for parameter in function.params]
        outputs = [number % len(buffers) for number in out_idx]
        shapes = [([int(extent) for extent in buffer.shape], torch_dtype(buffer)) for buffer in buffers]

        def run(*given: torch.Tensor) -> Any:
            inputs = [shape for position, shape in enumerate(shapes) if position not in outputs]
            assert [(list(tensor.shape), tensor.dtype) for tensor in given] == inputs
            results = [torch.empty(shapes[output][0], dtype=shapes[output][1], device="meta") for output in outputs]
            return results[0] if len(results) == 1 else results

        return run

    tilelang.compile = compile
    module = ProblemModule(find_problem(path.stem).path, {}, "meta")
    spec = importlib.util.spec_from_file_location("kernel", path)
    assert spec is not None
    assert spec.loader is not None
    kernel = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernel)
    with torch.device("meta"), torch.no_grad():
        kernel.ModelNew(*module.init_inputs())(*module.inputs(0))
    return found


json.dump({path.stem: lowered(path) for path in sorted(Path(sys.argv[1]).glob("*.py"))}, sys.stdout)
