"""Lower attention kernels for sm_90a at some sizes and schedules; prints a line of JSON for each.

Arguments: a folder for the sources last, which gets the CUDA code as case_0.cu and so on; before it JSON, a list of
{"sizes": {...}, "config": {...}}.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import tilelang
import torch
from kernelwright.core import PythonKernel
from kernelwright.corpus.kernels import ATTENTION_KERNEL
from kernelwright.tests.evaluators.replay.host_calls import assert_ours_calls_the_same
from tilelang import tvm
from tvm.target import Target


def lowered(function: Any, code: Path, config: dict[str, Any]) -> dict[str, Any]:
    target = Target({"kind": "cuda", "arch": "sm_90a"})
    # Layout inference asks for the target of the context, whatever the argument says.
    with tvm.transform.PassContext(opt_level=3, config=config), target:
        artifact = tilelang.lower(function, target=target)
    assert_ours_calls_the_same(function, artifact.host_mod, artifact.device_mod)
    code.write_text(artifact.kernel_source)
    (kernel,) = artifact.device_mod.functions.values()
    digest = hashlib.sha256(artifact.kernel_source.encode()).hexdigest()[:16]
    return {"shared": int(kernel.attrs.get("dyn_shared_memory_buf", 0)), "digest": digest}


def main() -> None:
    for number, case in enumerate(json.loads(sys.argv[1])):
        kernel = PythonKernel.parse(ATTENTION_KERNEL.read_text())
        found: list[Any] = []
        code = Path(sys.argv[2]) / f"case_{number}.cu"

        def compile_(function: Any, pass_configs: Any = None, found: Any = found, code: Path = code, **_: Any) -> Any:
            found.append(lowered(function, code, pass_configs or {}))
            return lambda *inputs: inputs[0]

        tilelang.compile = compile_
        sizes = {"B": 1, "H": 4, "HK": 4, "SQ": 512, "SK": 512, "D": 64, "DV": 64, "causal": False, **case["sizes"]}
        module: dict[str, Any] = {}
        # TileLang reads the source of the function that it translates.
        source, path = kernel.bind(case["config"]).source, Path(sys.argv[2]) / f"case_{number}.py"
        path.write_text(source)
        exec(compile(source, str(path), "exec", dont_inherit=True), module)
        dtype = getattr(torch, sizes.pop("dtype", "float16"))
        q, k, v = (
            torch.empty(sizes["B"], heads, length, dim, dtype=dtype, device="meta")
            for heads, length, dim in (
                (sizes["H"], sizes["SQ"], sizes["D"]),
                (sizes["HK"], sizes["SK"], sizes["D"]),
                (sizes["HK"], sizes["SK"], sizes["DV"]),
            )
        )
        try:
            module["ModelNew"](sizes["causal"])(q, k, v)
            said = found[0]
        except Exception as error:
            said = {"error": str(error).strip().splitlines()[-1][:300]}
        sys.stdout.write(json.dumps(said) + "\n")


main()
