"""What a check's weights and inputs are drawn from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from kernelwright.evaluators.reference.arithmetic import Arithmetic
from kernelwright.evaluators.reference.drawn_reference import DrawnReference

PROBLEM = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 64))

    def forward(self, x):
        return x @ self.weight

def get_inputs():
    return [torch.randn(64, 64)]

def get_init_inputs():
    return []
"""


def test_weights_do_not_tell_the_inputs_of_the_same_seed(tmp_path: Path) -> None:
    """What packs weights sees them before a call, and could compute its results."""
    path = tmp_path / "problem.py"
    path.write_text(PROBLEM)
    scheduling: Any = None
    options = {"device": "cpu", "tolerances": {}, "problem": str(path), "sizes": {}}
    reference = DrawnReference(options, Arithmetic(), scheduling)
    reference.prepare(7)
    drawn = torch.stack([reference.model.weight.detach().flatten(), reference.inputs[0].flatten()])
    assert torch.corrcoef(drawn)[0, 1].abs() < 0.1
    before = reference.model.weight.detach().clone()
    reference.prepare(8)
    reference.prepare(7)
    assert torch.equal(reference.model.weight, before)
