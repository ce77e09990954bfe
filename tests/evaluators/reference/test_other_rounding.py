"""An attention over rows of large numbers: where rounding decides which value it takes, and where it does not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from kernelwright.core.problem import TOLERANCES
from kernelwright.evaluators.correctness import row_limits
from kernelwright.evaluators.reference.arithmetic import Arithmetic
from kernelwright.evaluators.reference.comparison import Comparison
from kernelwright.evaluators.reference.drawn_reference import DrawnReference
from kernelwright.evaluators.reference.other_rounding import rounded_elsewhere
from kernelwright.evaluators.timing.priority import Scheduling

MODULE = Path(__file__).parents[3] / "benchmarks" / "modules" / "attention_rotary.py"
B, S, H, D = 2, 192, 2, 32
LARGE = "mixed rows of large size"
DECIDED = (2, 9, 10, 27)
"""Seeds with which one of 384 rows of a correct kernel takes another value than the reference."""
Scores = Callable[[Any], Any]


@functools.cache
def reference() -> DrawnReference:
    tolerances = {dtype: list(tolerance) for dtype, tolerance in TOLERANCES.items()}
    sizes = {"B": B, "S": S, "H": H, "D": D}
    options = {"problem": str(MODULE), "sizes": sizes, "device": "cpu", "tolerances": tolerances}
    return DrawnReference(options, Arithmetic(), Scheduling())


def fused(x: Any, cos: Any, sin: Any, changed: Scores) -> Any:
    """The layer as a kernel has it: queries and keys are rotated in fp32, and rounded once."""
    model = reference().model

    def rotated(t: Any) -> Any:
        first, second = t.float().chunk(2, -1)
        return (t.float() * cos.float() + torch.cat((-second, first), -1) * sin.float()).bfloat16().float()

    projected = (x.float() @ model.qkv.weight.float().T).bfloat16()
    q, k, v = (t.view(B, S, H, D).transpose(1, 2) for t in projected.chunk(3, -1))
    scores = changed(rotated(q) @ rotated(k).transpose(-1, -2) * D**-0.5)
    hidden = ~torch.ones(S, S, dtype=torch.bool).tril()
    weights = (scores - scores.masked_fill(hidden, -torch.inf).amax(-1, keepdim=True)).masked_fill(hidden, -torch.inf)
    total = weights.exp().sum(-1, keepdim=True)
    result = (weights.exp().bfloat16().float() @ v.float() / total).bfloat16()
    return (result.transpose(1, 2).reshape(B, S, H * D).float() @ model.out.weight.float().T).bfloat16()


def said(seed: int, changed: Scores) -> str:
    """What is said of the kernel; empty if it is correct."""
    drawn = reference()
    drawn.prepare(seed, LARGE)
    with torch.no_grad():
        (expected,) = drawn.outputs([item.clone() for item in drawn.inputs])
        rows = Comparison(drawn).allowed(LARGE).rows
        assert rows is not None
        found = rows(0, expected.detach(), fused(*drawn.inputs, changed), "")
    assert found is not None
    return str(found["message"])


@pytest.mark.parametrize("seed", DECIDED)
def test_a_row_that_rounding_decides_is_no_error(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(seed, lambda scores: scores) == ""
    monkeypatch.setattr(row_limits, "FURTHER_DRAWS", 0)
    assert "1 of 384 rows are wrong" in said(seed, lambda scores: scores)


def of_six_bits(scores: Any) -> Any:
    mantissa, exponent = torch.frexp(scores)
    return torch.ldexp((mantissa * 64).round() / 64, exponent)


@pytest.mark.parametrize("seed", [11, 13])
def test_scores_of_a_coarser_precision_are_no_other_rounding(seed: int) -> None:
    assert "rows are wrong" in said(seed, of_six_bits)


WRONG: dict[str, Scores] = {
    "a limit on scores": lambda scores: scores.clamp(-1e4, 1e4),
    "a key left out": lambda scores: scores.index_fill(3, torch.tensor([7]), -torch.inf),
    "keys in other places": lambda scores: scores.roll(1, -1),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_attention_is_still_refused(case: str) -> None:
    assert all("rows are wrong" in said(seed, WRONG[case]) for seed in DECIDED[:2])


def test_only_results_of_16_bits_that_are_computed_change() -> None:
    x = torch.randn(64, 64)
    narrow = x.bfloat16()
    (same,) = rounded_elsewhere(lambda: [x @ x], 1)
    assert torch.equal(same, x @ x)
    (copy,) = rounded_elsewhere(lambda: [narrow.t().contiguous()], 1)
    assert torch.equal(copy, narrow.t())
    first, other = (rounded_elsewhere(lambda: [narrow * 2], draw)[0] for draw in (1, 2))
    error = (first.float() / (narrow.float() * 2) - 1).abs()
    assert not torch.equal(first, other) and 0 < error.mean() < 2 * torch.finfo(torch.bfloat16).eps
