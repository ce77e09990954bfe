"""A program: runs the MXFP8 and NVFP4 kernels in Triton's interpreter, and writes their largest relative errors.

Run with TRITON_INTERPRET=1. References are those of the problems, and sizes ones that tiles do not divide.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kernelwright.corpus import find_kernel, find_problem
from kernelwright.evaluators.languages.triton import SUPPORT
from kernelwright.evaluators.workers.modules import ProblemModule

SIZES = {"M": 40, "N": 72, "K": 192}  # K is not a multiple of a step
CONFIGS: tuple[dict[str, Any], ...] = (
    {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128},
    {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 256, "GROUP_SIZE_M": 1},
)


def main() -> None:
    SUPPORT.prepare("cpu")
    errors = {}
    for name in ("mxfp8", "nvfp4"):
        problem = ProblemModule(Path(find_problem(f"gemm/{name}").read().path), SIZES, "cpu")
        inputs = problem.inputs(0)
        expected = problem.model(0)(*inputs).float()
        for config in CONFIGS:
            source = find_kernel(f"gemm/{name}", "triton").read().bind(config).source
            path = Path(f"kernel_{name}_{config['BLOCK_SIZE_K']}.py")
            path.write_text(source)
            module: dict[str, Any] = {"__name__": path.stem, "__file__": str(path.resolve())}
            exec(compile(source, str(path.resolve()), "exec"), module)
            # Users may hold operands with other strides: every second column of a wider tensor.
            apart = [item.repeat_interleave(2, -1)[..., ::2] for item in inputs]
            result = module["ModelNew"]()(*apart).float()
            errors[f"{name} {config}"] = float((result - expected).abs().max() / expected.abs().max())
    sys.stdout.write(json.dumps(errors))


if __name__ == "__main__":
    main()
