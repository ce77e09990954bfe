"""A program: runs the decoding kernel in Triton's interpreter, and writes its errors against fp64 beside torch's own.

Run with TRITON_INTERPRET=1. Sizes are ones that tiles and parts do not divide; a part may have no keys.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kernelwright.corpus import find_kernel, find_problem
from kernelwright.evaluators.languages.triton import SUPPORT
from kernelwright.evaluators.workers.modules import ProblemModule

ODD = {"batch_size": 2, "heads": 6, "kv_heads": 2, "seq_len_k": 301, "head_dim": 40, "head_dim_kv": 48}
CASES: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "whole fp32": ({**ODD, "dtype": "float32"}, {"BLOCK_N": 32, "SPLITS": 1}),
    "parts fp32": ({**ODD, "dtype": "float32"}, {"BLOCK_N": 32, "SPLITS": 5}),
    "parts bf16": (ODD, {"BLOCK_N": 64, "SPLITS": 3}),
    "a part without keys fp16": ({**ODD, "dtype": "float16"}, {"BLOCK_N": 64, "SPLITS": 4}),
    "no shared keys bf16": ({**ODD, "kv_heads": 6}, {"BLOCK_N": 128, "SPLITS": 2}),
    "drafts bf16": ({**ODD, "seq_len_q": 5}, {"BLOCK_N": 16, "SPLITS": 12}),
    "two tiles of rows fp32": (
        {**ODD, "kv_heads": 1, "seq_len_q": 12, "seq_len_k": 14, "dtype": "float32"},
        {"BLOCK_N": 16, "SPLITS": 1},
    ),
    "one key bf16": ({**ODD, "seq_len_k": 1}, {"BLOCK_N": 16, "SPLITS": 1}),
}


def main() -> None:
    SUPPORT.prepare("cpu")
    found: dict[str, Any] = {}
    for number, (name, (sizes, config)) in enumerate(CASES.items()):
        problem = ProblemModule(Path(find_problem("decoding").read().path), sizes, "cpu")
        inputs = problem.inputs(0)
        model = problem.model(0)
        expected = model(*(item.double() for item in inputs))
        path = Path(f"kernel_{number}.py")
        path.write_text(find_kernel("attention/decoding", "triton").read().bind(config).source)
        module: dict[str, Any] = {"__name__": path.stem, "__file__": str(path.resolve())}
        exec(compile(path.read_text(), str(path.resolve()), "exec"), module)
        result, own = module["ModelNew"]()(*inputs), model(*inputs)
        same = (result.shape, result.dtype) == (own.shape, own.dtype)
        errors = [float((item.double() - expected).abs().max()) for item in (result, own)]
        found[name] = {"same": same, "error": errors[0], "torch": errors[1]}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
