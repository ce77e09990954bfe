"""Lower TileLang's matrix products for sm_90a; prints what the kernels of each case have, a line of JSON per case.

Each ModelNew runs on meta tensors, with tilelang.compile replaced by a function that lowers. Arguments: a folder for
the sources; JSON, a list of [product, sizes, config].
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tilelang
import torch
from kernelwright.corpus import find_kernel, find_problem
from kernelwright.evaluators.workers.modules import ProblemModule
from kernelwright.tests.evaluators.replay.host_calls import assert_ours_calls_the_same
from tilelang import tvm
from tvm.target import Target


def described(source: str, shared: int) -> dict[str, Any]:
    name = re.search(r"__global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(", source)
    assert name is not None
    lines = source.splitlines()
    # The product's consumers: from its first wait on.
    read = [number for number, line in enumerate(lines) if re.search(r"\bscale\[.*= \(\(float\*\)scales\)", line)]
    given_back = [number for number, line in enumerate(lines) if re.search(r"mbarrier\[.*\]\.arrive\(\)", line)]
    return {
        "name": name[1],
        "shared": shared,
        "fp8": "fp8_e4_t" in source,
        "wgmma": "tl::wgmma_ss" in source,
        "tma": "tl::tma_load" in source,
        "promoted": re.search(r"float (part|product)\[\d+\]", source) is not None and "wgmma" in source,
        "roles": "float product[" in source,
        "scales_read_first": bool(read and given_back) and max(read) < min(given_back),
    }


def main() -> None:
    for number, (name, sizes, config) in enumerate(json.loads(sys.argv[2])):
        found: list[dict[str, Any]] = []

        def compile(
            function: Any, out_idx: list[int], found: list[dict[str, Any]] = found, **_: Any
        ) -> Callable[..., torch.Tensor]:
            target = Target({"kind": "cuda", "arch": "sm_90a"})
            # Layout inference asks for the target of the context, whatever the argument says.
            with tvm.transform.PassContext(opt_level=3), target:
                artifact = tilelang.lower(function, target=target)
            assert_ours_calls_the_same(function, artifact.host_mod, artifact.device_mod)
            (kernel,) = artifact.device_mod.functions.values()
            found.append(described(artifact.kernel_source, int(kernel.attrs.get("dyn_shared_memory_buf", 0))))
            output = function.buffer_map[function.params[out_idx[0]]]
            shape, dtype = [int(extent) for extent in output.shape], getattr(torch, str(output.dtype))
            return lambda *_: torch.empty(shape, dtype=dtype, device="meta")

        tilelang.compile = compile
        # TileLang reads the source of the function that it translates.
        path = Path(sys.argv[1]) / f"case_{number}.py"
        source = find_kernel(f"gemm/{name}", "tilelang").read().bind(config).source
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.multiprocessors = lambda _: 132
        inputs = ProblemModule(find_problem(f"gemm/{name}").path, sizes, "meta").inputs(0)
        try:
            with torch.device("meta"):
                result = module.ModelNew()(*inputs)
            assert list(result.shape) == [sizes["M"], sizes["N"]]
            said: Any = found
        except Exception as error:
            said = {"error": str(error).strip().splitlines()[-1][:300]}
        sys.stdout.write(json.dumps(said) + "\n")


main()
