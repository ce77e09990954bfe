"""Other inputs and weights than the problem's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from kernelwright.core import Config, Evaluation, Status, TorchProblem
from kernelwright.evaluators.correctness.distributions import (
    DISTRIBUTIONS,
    MAGNITUDES,
    OTHER_NUMBERS,
    OTHER_STRIDES,
    OTHER_WEIGHTS,
    SPECIAL,
    change_weights,
    draw,
    vary_constants,
)
from kernelwright.evaluators.correctness.inputs import Buffers
from kernelwright.evaluators.correctness.mixed_rows import MIXED
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.workers.user_call import fixed_inputs
from torch import nn

from ...conftest import torch_kernel
from .test_inputs import problem


def test_heavy_tails_do_not_follow_the_inputs(tmp_path: Path) -> None:
    module = problem(tmp_path, "torch.randn(100, 100)")
    plain, changed = draw(module, 1)[0], draw(module, 1, "heavy tails")[0]
    exponent = (changed / plain).log() / 1.5
    assert abs(float(torch.corrcoef(torch.stack([plain.flatten(), exponent.flatten()]))[0, 1])) < 0.1


@pytest.mark.parametrize(
    "inputs", ["torch.rand(6, 5)", "torch.rand(2, 1, 7, 3)", "torch.arange(9)", "torch.rand(1, 8)"]
)
def test_other_strides_have_the_same_values(tmp_path: Path, inputs: str) -> None:
    module = problem(tmp_path, inputs)
    plain, strided = draw(module, 1)[0], draw(module, 1, OTHER_STRIDES)[0]
    assert torch.equal(plain, strided) and not strided.is_contiguous()
    (held,) = Buffers().fill([strided])
    assert held.stride() == strided.stride() and torch.equal(held, plain)


def test_a_users_tables_and_whole_numbers_stay_as_its_inputs_function_makes_them(tmp_path: Path) -> None:
    module = problem(tmp_path, "torch.randn(64, 8), torch.arange(8.0).cos(), torch.arange(8)")
    changed = draw(module, 1, "large")
    assert not torch.equal(changed[1], draw(module, 1)[1])
    module = problem(tmp_path, "torch.randn(64, 8), torch.arange(8.0).cos(), torch.arange(8)")
    module.module.get_fixed = lambda first, second: fixed_inputs(first, second, print)  # type: ignore[attr-defined]
    plain = draw(module, 1)
    for distribution in ("large", OTHER_NUMBERS, *MIXED):
        changed = draw(module, 1, distribution)
        assert torch.equal(changed[1], plain[1]) and torch.equal(changed[2], plain[2])
        assert torch.equal(changed[0], plain[0]) is (distribution == OTHER_NUMBERS)


@pytest.mark.parametrize("narrow", ["", ".to(torch.float8_e4m3fn)"])
def test_a_triangle_of_a_users_inputs_stays_one(tmp_path: Path, narrow: str) -> None:
    """A function may read nothing of the other half, which its reference does."""
    module = problem(tmp_path, f"torch.randn(4, 8, 8).tril(-1){narrow}, torch.randn(4, 8, 8).relu()")
    module.module.get_fixed = lambda first, second: fixed_inputs(first, second, print)  # type: ignore[attr-defined]
    upper = ~torch.ones(4, 8, 8).tril(-1).bool()
    for distribution in (*DISTRIBUTIONS, SPECIAL, *(() if narrow else MIXED)):
        triangle = draw(module, 1, distribution)[0]
        assert (triangle.float()[upper] == 0).all(), distribution
    assert torch.equal(module.zeros[0], upper)
    assert module.zeros[1].float().mean() < 0.2, "half of the numbers are zero by chance, and not always the same"


def test_between_the_elements_of_one_axis_lies_nan(tmp_path: Path) -> None:
    (held,) = Buffers().fill(draw(problem(tmp_path, "torch.rand(8)"), 1, OTHER_STRIDES))
    assert torch.as_strided(held, (15,), (1,))[1::2].isnan().all()


@pytest.mark.parametrize("distribution", [*DISTRIBUTIONS, SPECIAL, MAGNITUDES[0]])
def test_another_distribution_has_the_same_strides(tmp_path: Path, distribution: str) -> None:
    (x,) = draw(problem(tmp_path, "torch.rand(8, 6).t()"), 1, distribution)
    assert x.stride() == (1, 6)


@pytest.mark.parametrize(
    "numbers",
    [
        "torch.arange(64) ** 2 % 63",
        "torch.arange(64) ** 2",
        "(torch.arange(64) % 7 == 0)",
        "torch.stack([torch.arange(64) % 5, 100 + torch.arange(64) % 9], 1)",
    ],
)
def test_whole_numbers_that_no_seed_changes_are_changed_within_their_range(tmp_path: Path, numbers: str) -> None:
    module = problem(tmp_path, f"torch.rand(4), {numbers}, torch.randint(0, 9, (50,))")
    (x, plain, drawn), (y, changed, again) = draw(module, 1), draw(module, 1, OTHER_NUMBERS)
    assert torch.equal(x, y) and torch.equal(drawn, again)
    assert not torch.equal(plain, changed) and plain.dtype == changed.dtype
    assert torch.equal(plain.amin(0), changed.amin(0)) and torch.equal(plain.amax(0), changed.amax(0))
    if numbers.endswith("2"):  # offsets
        assert bool((changed.diff() >= 0).all()) and (changed[0], changed[-1]) == (plain[0], plain[-1])


def test_special_values_are_few(tmp_path: Path) -> None:
    (x,) = draw(problem(tmp_path, "torch.rand(64, 64)"), 1, SPECIAL)
    assert x.isnan().any() and x.isinf().any() and int((~x.isfinite()).sum()) <= 24
    assert draw(problem(tmp_path, "torch.rand(3)"), 1, SPECIAL)[0].isfinite().all()


def test_constants_get_different_noise_and_other_weights_cross_every_bound() -> None:
    norm = vary_constants(nn.LayerNorm(64), 1)
    assert not torch.equal(norm.weight - 1, norm.bias)
    linear = nn.Linear(64, 64)
    changed = change_weights(nn.Linear(64, 64), 1)
    assert float(changed.weight.detach().abs().max()) > 2 * float(linear.weight.detach().abs().max())


def evaluated(evaluator: LocalEvaluator, problem: TorchProblem, body: str) -> Evaluation:
    return next(iter(evaluator.evaluate(problem, torch_kernel(body), [Config()])))


def test_what_the_reference_supports_is_checked(evaluator: LocalEvaluator, scale_problem: TorchProblem) -> None:
    found = evaluated(evaluator, scale_problem, "return x * self.weight")
    assert found.status is Status.OK and found.correctness is not None
    assert found.correctness.distributions[-3:] == (MAGNITUDES[0], "mixed rows", OTHER_WEIGHTS)
    assert (found.correctness.special_values, found.correctness.other_strides) == ("", "")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return x.clamp(-1e6, 1e6) * self.weight", "(times 1e+30)"),
        ("return x * self.weight * (self.weight.min() >= 0)", "with other weights than the initial ones"),
    ],
)
def test_what_holds_for_usual_numbers_only_is_wrong(
    evaluator: LocalEvaluator, scale_problem: TorchProblem, body: str, says: str
) -> None:
    # Initial weights are never negative, and of 256 others a quarter is: no matter of chance.
    positive = replace(
        scale_problem, source=scale_problem.source.replace("torch.randn(features)", "torch.rand(features)")
    )
    assert positive != scale_problem
    found = evaluated(evaluator, positive, body)
    assert found.status is Status.WRONG_VALUE
    assert says in found.message


def test_what_correct_kernels_may_do_is_a_remark(evaluator: LocalEvaluator, scale_problem: TorchProblem) -> None:
    found = evaluated(evaluator, scale_problem, "return x.nan_to_num(0, torch.inf, -torch.inf) * self.weight")
    assert found.status is Status.OK and found.correctness is not None
    assert str(found.correctness.special_values).startswith("with NaN and infinity among the inputs: ")
    found = evaluated(evaluator, scale_problem, "return x.as_strided(x.shape, (x.shape[1], 1)) * self.weight")
    assert found.status is Status.OK and found.correctness is not None
    assert str(found.correctness.other_strides).startswith("with inputs that are not contiguous: ")
    found = evaluated(evaluator, scale_problem, "assert x.is_contiguous()\n        return x * self.weight")
    assert found.status is Status.OK and found.correctness is not None
    assert "AssertionError" in str(found.correctness.other_strides)
