"""Unusable references are reported at once, and accuracy is checked output by output."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from kernelwright.core import Config, Kernel, Problem, ProblemError, Status, Tolerance
from kernelwright.evaluators.correctness.compare import EXACT, Allowed, compare, compare_tensor
from kernelwright.evaluators.correctness.fp64 import Fp64Comparison
from kernelwright.evaluators.correctness.reference_checks import UnusableReferenceError, require_reference
from kernelwright.evaluators.correctness.trivial_outputs import TrivialOutput, passing_trivial_outputs
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.workers.tensor_ipc import Outputs, describe, write
from torch import nn

TOLERANCES = {"float32": Tolerance(1e-4, 1e-4), "complex64": Tolerance(1e-4, 1e-4)}
ONES = torch.ones(4)


@pytest.mark.parametrize(
    ("first", "again", "says"),
    [
        ([{"out": 1}], [{"out": 1}], "returns dict"),
        ([torch.rand(9)], [torch.rand(9)], "dropout"),
        ([torch.full((3,), torch.nan)], [torch.full((3,), torch.nan)], "NaN or infinity everywhere"),
        ([torch.ones(3)], [torch.ones(4)], "other shapes"),
    ],
)
def test_a_reference_that_fits_nothing(first: list[Any], again: list[Any], says: str) -> None:
    with pytest.raises(UnusableReferenceError, match=says):
        require_reference(first, again)


def test_dropout_is_reported(evaluator: LocalEvaluator, scale_problem: Problem, scale_kernel: Kernel) -> None:
    """Though what it draws would come again with the inputs' seed."""
    random = scale_problem.source.replace("return x * self.weight", "return nn.functional.dropout(x * self.weight)")
    with pytest.raises(ProblemError, match="dropout"):
        list(evaluator.evaluate(replace(scale_problem, source=random), scale_kernel, [Config()]))


def test_references_that_fit() -> None:
    require_reference([ONES, torch.arange(3)], [ONES + 1e-6, torch.arange(3)])


def test_an_output_with_attributes_of_its_own_is_none() -> None:
    lazy = torch.ones(3)
    lazy.detach = lambda: torch.zeros(3)  # type: ignore[method-assign]
    assert describe(lazy)["shape"] is None


def test_the_imaginary_part_counts(tmp_path: Any) -> None:
    wanted = torch.complex(ONES, ONES)
    path = tmp_path / "outputs"
    for got, status in ((wanted.clone(), Status.OK), (wanted.conj().resolve_conj(), Status.WRONG_VALUE)):
        assert compare([wanted], write([got], path), Outputs(path), Allowed(TOLERANCES))["status"] == status


def test_large_whole_numbers_differ_by_one() -> None:
    big = torch.tensor([2**60 + 1, 5])
    assert compare_tensor(big, big.clone(), EXACT)["status"] == Status.OK
    wrong = compare_tensor(big, big + torch.tensor([6, 0]), EXACT)
    assert wrong["status"] == Status.WRONG_VALUE and "1 of 2 elements differ; the first at (0,)" in wrong["message"]


class Twice(nn.Module):
    """Beside the number an index, as a maximum returns."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.mul_(3.0) / 7.0, x.argmax()


def test_fp64_beside_indices_and_with_a_reference_that_writes_to_its_input() -> None:
    exactness, x = Fp64Comparison(), torch.randn(1000)
    before, expected = x.clone(), Twice()(x.clone())
    found = exactness.compare(Twice(), [x], expected, expected)
    assert 0 < found["error_fp64"] == found["torch_error_fp64"] < 1e-6 and "status" not in found
    assert torch.equal(x, before), "the inputs are still needed"
    half = ((x.half() * 3).float() / 7, expected[1])
    assert exactness.compare(Twice(), [x], expected, half)["status"] == Status.WRONG_VALUE
    assert exactness.copes(Twice(), [x.clone()], "large", TOLERANCES)


def test_trivial_outputs_are_what_they_are() -> None:
    small, x = 1e-7 * torch.randn(100), torch.randn(100)
    assert passing_trivial_outputs([x], [x], Allowed(TOLERANCES)) == ["input 0"]
    assert passing_trivial_outputs([small], [x], Allowed(TOLERANCES)) == []
    assert passing_trivial_outputs([5 + 1e-6 * x], [x], Allowed(TOLERANCES)) == ["mean"]
    assert passing_trivial_outputs([torch.tensor([torch.inf, 1.0])], [], Allowed(TOLERANCES)) == []
    assert passing_trivial_outputs([torch.complex(0 * x, x)], [], Allowed(TOLERANCES)) == []
    assert str(TrivialOutput.of([torch.complex(x, x)], [torch.complex(x, 2 * x)], [torch.complex(x, x)])) == "input 0"
    assert str(TrivialOutput.of([torch.zeros(100)], [x], [x])) == "zeros"
    assert str(TrivialOutput.of([torch.full((100,), 2.0)], [x], [x])) == "2 everywhere"
    assert str(TrivialOutput.of([x.clone()], [2 * x], [x])) == "input 0"
    assert TrivialOutput.of([2 * x], [x], [x]) is None and TrivialOutput.of([ONES], [ONES], []) is None
