"""What torch's compiler wrote on an H200 (torch 2.11) for problems of KernelBench's levels 1 and 2, as kernel files.

The recording has the problems whose number is divisible by three (`benchmarks/first_kernels.py`), but for 1_84, 2_66
and 2_84, for which there was no code then.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from kernelwright.agent.first_kernels.from_inductor import first_kernel
from kernelwright.agent.first_kernels.unsupported_code import UnsupportedCodeError
from kernelwright.core import Config, TorchProblem
from kernelwright.core.generated_code import GeneratedCode
from kernelwright.evaluators.guards.source import find_violation
from kernelwright.evaluators.settings import AllowTorch

RECORDED = [
    json.loads(line)
    for line in lzma.decompress(Path(__file__).with_name("inductor_h200.jsonl.xz").read_bytes()).splitlines()
]
IN_THE_LIBRARY = {f"level1/1_{number}" for number in (57, 69, 72, 75, 78, 81)}
"""Transposed convolutions alone, recorded before they became ordinary ones: Inductor has no template for them."""


@pytest.mark.parametrize("recorded", RECORDED, ids=[code["id"] for code in RECORDED])
def test_recorded_code_becomes_a_file_of_plain_kernels(recorded: dict[str, Any]) -> None:
    problem = TorchProblem(id=recorded["id"], name=recorded["name"], source=recorded["reference"])
    code = GeneratedCode.model_validate(recorded["code"])
    if problem.id in IN_THE_LIBRARY:
        with pytest.raises(UnsupportedCodeError, match=r"its library \(convolution\)"):
            first_kernel(problem, code)
        return
    kernel = first_kernel(problem, code)
    assert not any(word in kernel.source for word in ("_inductor", "triton_heuristics", "stream=", "triton_helpers"))
    allowed = AllowTorch.ALL if "torch computes" in kernel.source else AllowTorch.NONE
    assert find_violation(kernel.source, kernel, allowed) is None
    space = kernel.space(kernel.declared_values, kernel.declared_constraints)
    assert Config({name: kernel.config[name] for name in kernel.declared_values}) in space
