"""The allowed error of each row, and which rows are of use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from kernelwright.core import Status
from kernelwright.core.problem import TOLERANCES
from kernelwright.evaluators.correctness.distributions import draw
from kernelwright.evaluators.correctness.mixed_rows import MIXED, mixed
from kernelwright.evaluators.correctness.row_limits import ReferenceRuns, compare_rows, counted_share

from .test_inputs import problem

SEED = torch.Generator().manual_seed(0)


def verdict(reference: Callable[[Any], Any], x: torch.Tensor, actual: torch.Tensor) -> Status:
    def exact(inputs: Sequence[Any]) -> list[Any]:
        return [reference(inputs[0].double())]

    runs = ReferenceRuns(lambda inputs: [reference(inputs[0])], exact, [x])
    found = compare_rows(runs, 0, reference(x), actual, TOLERANCES["float32"])
    return Status(found["status"])


def rows() -> torch.Tensor:
    return torch.randn(8, 64, generator=SEED)


@pytest.mark.parametrize("size", [1e-20, 1.0, 1e20])
def test_an_error_is_as_large_as_its_own_row_says(size: float) -> None:
    x = rows()
    x[3] *= size
    wrong = x * 3
    wrong[3] += 1e-3 * size
    assert verdict(lambda x: x * 3, x, wrong) is Status.WRONG_VALUE
    assert verdict(lambda x: x * 3, x, x * 3 * (1 + 1e-6)) is Status.OK


def test_a_row_in_which_the_reference_is_not_finite_counts_for_nothing() -> None:
    x = rows()
    x[2] = 1e30
    squares = x.square().clamp(max=3e38)
    assert verdict(torch.square, x, squares) is Status.OK
    squares[1] = 0
    assert verdict(torch.square, x, squares) is Status.WRONG_VALUE


def test_nan_is_wrong_in_a_row_that_counts() -> None:
    x = rows()
    wrong = x * 3
    wrong[5, 1] = torch.nan
    assert verdict(lambda x: x * 3, x, wrong) is Status.WRONG_VALUE


def test_denormals_may_be_zero_and_other_small_numbers_may_not() -> None:
    x = rows()
    x[1] *= 1e-39
    x[2] *= 1e-30
    without = x.where(x.abs() > 1.2e-38, 0.0)
    assert verdict(lambda x: x * 1e6, x, without * 1e6) is Status.OK
    assert verdict(lambda x: x * 1e6, x, x.where(x.abs() > 1e-20, 0.0) * 1e6) is Status.WRONG_VALUE


def test_parts_of_a_sum_that_are_denormal_may_be_zero() -> None:
    tiny = torch.finfo(torch.float32).tiny
    x = rows()
    x[1], x[2] = tiny / 8, tiny
    parts = x.view(8, 16, 4).sum(-1)
    sums = parts.where(parts.abs() >= tiny, 0.0).sum(-1)
    assert sums[1] == 0 and x[1].sum() > 4 * tiny
    assert verdict(lambda x: x.sum(-1), x, sums) is Status.OK
    sums[2] = 0
    assert verdict(lambda x: x.sum(-1), x, sums) is Status.WRONG_VALUE


def test_what_is_subtracted_from_one_may_be_lost_and_what_has_no_constants_may_not() -> None:
    x = -rows().abs()
    x[4] *= 1e-8
    elu = torch.nn.functional.elu
    assert verdict(elu, x, x.exp() - 1) is Status.OK
    assert verdict(torch.nn.functional.leaky_relu, x, 0.01 * x.where(x.abs() > 1e-7, 0.0)) is Status.WRONG_VALUE


def test_a_reduced_axis_leaves_rows_of_one_element() -> None:
    x = rows()
    x[6] *= 1e-9
    wrong = x.sum(1)
    wrong[6] = 0
    assert verdict(lambda x: x.sum(1), x, wrong) is Status.WRONG_VALUE


def test_rows_that_overflow_earlier_than_the_reference_are_left_out() -> None:
    x = rows()
    x[0] *= 1e18
    x[7] *= 1e12

    def norm(x: torch.Tensor) -> torch.Tensor:
        return x / x.norm(dim=1, keepdim=True)

    actual = norm(x)
    actual[0] = 0
    assert verdict(norm, x, actual) is Status.OK
    actual[7] = 0
    assert verdict(norm, x, actual) is Status.WRONG_VALUE


def test_the_share_of_accurate_rows() -> None:
    x = rows().double()
    off = x.float()
    off[0] *= 1.5
    off[1, 0] = torch.inf
    assert counted_share(off, x, [x]) == 0.75


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("inputs", ["torch.randn(64, 40)", "torch.randn(48, 3, 5, 7)", "torch.randn(2000)"])
def test_rows_are_of_all_kinds_and_the_same_again(tmp_path: Path, name: str, inputs: str) -> None:
    module = problem(tmp_path, f"{inputs}, {inputs}, torch.rand(7)")
    x, like_it, other = draw(module, 1, name)
    plain = draw(module, 1)
    assert same(x, draw(module, 1, name)[0]) and torch.equal(other, plain[2])
    assert torch.equal(like_it, plain[1]) is not MIXED[name].alike
    assert bool(x.isfinite().all()) is not MIXED[name].special
    assert float(x.abs()[x.isfinite()].max()) < 1e3 * MIXED[name].most
    rows = x.reshape(-1, x.shape[-1]) if x.dim() > 1 else x[:1984].view(-1, 64)
    assert ((rows != 0).sum(1) == 1).any() and (rows == 0).all(1).any()
    assert (rows[:, 1:] >= rows[:, :-1]).all(1).any()
    assert (rows == rows[:, :1])[(rows != 0).all(1)].all(1).any()
    assert (rows.abs().amax(1)[(rows != 0).all(1)] < 1e-38).any()


def test_a_quiet_row_meets_a_quiet_one(tmp_path: Path) -> None:
    x, like_it, _ = draw(problem(tmp_path, "torch.randn(64, 40), torch.randn(64, 40), torch.rand(7)"), 1, "mixed rows")
    zeros = (x == 0).all(1)
    assert zeros.any() and torch.equal(zeros, (like_it == 0).all(1))


def test_some_samples_are_of_one_kind_as_a_whole(tmp_path: Path) -> None:
    (x,) = draw(problem(tmp_path, "torch.randn(64, 4, 5, 8)"), 1, "mixed rows")
    samples = x.flatten(1)
    assert ((samples != 0).sum(1) == 1).any() and (samples == 0).all(1).any()
    rows_empty = (x == 0).all(3).flatten(1)
    assert (rows_empty.any(1) & ~rows_empty.all(1)).any()


def same(first: torch.Tensor, second: torch.Tensor) -> bool:
    return torch.equal(first.nan_to_num(nan=7.0), second.nan_to_num(nan=7.0))


@pytest.mark.gpu
def test_rows_are_mixed_and_compared_on_a_gpu() -> None:
    x = mixed(torch.randn(96, 256, device="cuda"), torch.Generator("cuda").manual_seed(1), MIXED["mixed rows"])
    assert verdict(lambda x: x * 3, x, x * 3) is Status.OK
    assert verdict(lambda x: x * 3, x, x.where(x.abs() > 1e-6, 0.0) * 3) is Status.WRONG_VALUE
