from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernelwright.core import Status, Tolerance
from kernelwright.evaluators.correctness import errors
from kernelwright.evaluators.correctness.compare import (
    EXACT,
    Allowed,
    close_everywhere,
    compare,
    compare_tensor,
)
from kernelwright.evaluators.correctness.errors import relative_error, root_mean_square
from kernelwright.evaluators.workers.tensor_ipc import Outputs, write

numbers = st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=40)
TOLERANCES = {"float32": Tolerance(1e-4, 1e-4), "float16": Tolerance(1e-2, 1e-2)}


@settings(deadline=None)
@given(numbers, st.integers(1, 7))
def test_agrees_with_allclose_whatever_the_chunk(values: list[float], chunk: int) -> None:
    expected = torch.tensor(values, dtype=torch.float64)
    generator = torch.Generator().manual_seed(chunk)
    actual = expected + torch.randn(len(values), generator=generator, dtype=torch.float64) * 1e-4
    before, errors.CHUNK = errors.CHUNK, chunk
    try:
        verdict = compare_tensor(expected, actual, Tolerance(1e-4, 1e-4))
    finally:
        errors.CHUNK = before
    same = torch.allclose(actual, expected, atol=1e-4, rtol=1e-4)
    assert (verdict["status"] == Status.OK) == same == close_everywhere(expected, actual, Tolerance(1e-4, 1e-4))
    assert verdict["max_abs_error"] == pytest.approx(float((actual - expected).abs().max()))


@pytest.mark.parametrize("special", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_infinity_only_where_expected(special: float) -> None:
    plain, odd = torch.ones(3), torch.tensor([1.0, special, 1.0])
    assert compare_tensor(odd, odd, Tolerance(1e-4, 1e-4))["status"] == Status.OK
    assert compare_tensor(plain, odd, Tolerance(1e-4, 1e-4))["status"] == Status.WRONG_VALUE
    assert compare_tensor(odd, plain, Tolerance(1e-4, 1e-4))["status"] == Status.WRONG_VALUE


def test_a_share_of_the_elements_may_differ_up_to_a_cap() -> None:
    expected = torch.zeros(100)
    actual = expected.clone()
    actual[:5] = 2.0
    lenient = Tolerance(1e-2, 1e-2, matched=0.95, cap=3.0)
    assert compare_tensor(expected, actual, lenient)["status"] == Status.OK
    few = compare_tensor(expected, actual, lenient._replace(matched=0.96))
    assert few["status"] == Status.WRONG_VALUE and few["message"].endswith("largest error 2; 4 may")
    large = compare_tensor(expected, actual, lenient._replace(cap=2.0))
    assert large["status"] == Status.WRONG_VALUE and large["message"].endswith("largest error 2")
    actual[0] = float("nan")
    assert compare_tensor(expected, actual, lenient)["status"] == Status.WRONG_VALUE
    assert compare_tensor(actual, expected, Tolerance(1e-2, 1e-2, matched=0.5))["status"] == Status.WRONG_VALUE


@pytest.mark.parametrize("region", [(slice(99, None),), (slice(None), 7), (slice(8, 24), slice(32, 48))], ids=str)
def test_what_may_differ_is_no_region_that_is_left_out(region: tuple[slice | int, ...]) -> None:
    expected = torch.randn(100, 100, generator=torch.Generator().manual_seed(0))
    lenient = Tolerance(1e-2, 1e-2, matched=0.95)
    left_out, near, spread = expected.clone(), expected.clone(), expected.clone()
    left_out[region] = 0.0
    assert "not computed" in compare_tensor(expected, left_out, lenient)["message"]
    near[region] *= 1.1
    spread.view(-1)[::27] = 0.0
    assert compare_tensor(expected, near, lenient)["status"] == Status.OK, "rounding that hits a row"
    assert compare_tensor(expected, spread, lenient)["status"] == Status.OK


def test_names_the_first_wrong_element() -> None:
    expected = torch.zeros(2, 3, 4)
    actual = expected.clone()
    actual[1, 2, 3] = 5
    verdict = compare_tensor(expected, actual, Tolerance(1e-4, 1e-4))
    assert "1 of 24 elements" in verdict["message"]
    assert "(1, 2, 3): 5 against 0" in verdict["message"]


def test_integers_must_be_equal() -> None:
    assert compare_tensor(torch.tensor([1, 2]), torch.tensor([1, 2]), EXACT)["status"] == Status.OK
    assert compare_tensor(torch.tensor([1, 2]), torch.tensor([1, 3]), EXACT)["status"] == Status.WRONG_VALUE


def test_scalars_and_empty_tensors() -> None:
    assert compare_tensor(torch.tensor(1.0), torch.tensor(1.0), Tolerance(1e-4, 1e-4))["status"] == Status.OK
    assert compare_tensor(torch.tensor(1.0), torch.tensor(2.0), Tolerance(1e-4, 1e-4))["status"] == Status.WRONG_VALUE
    assert compare_tensor(torch.empty(0, 3), torch.empty(0, 3), Tolerance(1e-4, 1e-4))["status"] == Status.OK


def test_what_is_small_as_a_whole_is_not_met_by_zeros() -> None:
    small = 1e-5 * torch.randn(1000)
    assert not close_everywhere(small, 0.0, Allowed(TOLERANCES).of(small))
    as_it_is = TOLERANCES["float32"]
    assert Allowed(TOLERANCES).of(torch.full((9,), 64.0)) == as_it_is, (
        "large results are held to the tolerance as it is"
    )
    assert Allowed(TOLERANCES, unbounded=True).of(torch.full((9,), 64.0)).absolute == pytest.approx(64e-4)


def test_torchs_own_error_is_allowed_for() -> None:
    ones = torch.ones(9)
    assert Allowed(TOLERANCES, slack=8e-3).of(ones).absolute == pytest.approx(1e-4 + 8e-3)
    assert Allowed(TOLERANCES, slack=8e-3).of(torch.ones(9, dtype=torch.int32)) == EXACT


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_root_mean_square_at_any_magnitude(scale: float) -> None:
    values = torch.tensor([3.0, 4.0]) * scale
    assert root_mean_square(values) == pytest.approx(scale * 12.5**0.5, rel=1e-6)
    assert root_mean_square(torch.cat([values, torch.tensor([float("nan")])])) == pytest.approx(scale * 12.5**0.5)


def test_relative_error_is_over_the_whole_result() -> None:
    exact = torch.tensor([3.0, 4.0], dtype=torch.float64)
    rms, largest = relative_error(exact, torch.tensor([3.0, 4.5]))
    assert rms == pytest.approx(0.1)
    assert largest == pytest.approx(0.5 / 12.5**0.5)


KINDS = [
    (torch.zeros(3, 4), Status.WRONG_SHAPE, "shape"),
    (torch.zeros(4, 3, dtype=torch.float64), Status.WRONG_DTYPE, "dtype float64"),
    (torch.zeros(1, 3).expand(4, 3), Status.WRONG_SHAPE, "memory of its own"),
    (torch.zeros(3, 4).t(), Status.WRONG_SHAPE, "in another order"),
    (torch.zeros(4, 3).to_sparse(), Status.WRONG_SHAPE, "memory of its own"),
    (torch.zeros(4, 3).numpy(), Status.WRONG_SHAPE, "not a tensor"),
    (torch.zeros(4, 3).as_subclass(type("Lazy", (torch.Tensor,), {})), Status.WRONG_SHAPE, "returned Lazy"),
]


@pytest.mark.parametrize(("output", "status", "says"), KINDS, ids=[kind[2] + str(i) for i, kind in enumerate(KINDS)])
def test_what_is_no_such_tensor(output: object, status: Status, says: str, tmp_path: Path) -> None:
    path = tmp_path / "outputs"
    described = write([torch.zeros(0)], path)
    described = [{**described[0], **_described(output)}]
    verdict = compare([torch.zeros(4, 3)], described, Outputs(path), Allowed(TOLERANCES))
    assert verdict["status"] == status
    assert says in verdict["message"]


def test_what_lies_as_the_references_result_does_may_have_gaps_and_be_a_view(tmp_path: Path) -> None:
    wanted = torch.rand(4, 3)
    for expected, own in [
        (wanted, torch.zeros(4, 6)[:, :3].copy_(wanted)),
        (wanted.t().contiguous().t(), wanted),
        (wanted.t(), wanted.t()),
        (wanted.reshape(1, 12), wanted.reshape(12, 1).t()),
    ]:
        path = tmp_path / "outputs"
        assert compare([expected], write([own], path), Outputs(path), Allowed(TOLERANCES))["status"] == Status.OK


def test_a_users_function_has_strides_of_its_own(tmp_path: Path) -> None:
    wanted, path = torch.rand(4, 3), tmp_path / "outputs"
    for own, status in ((wanted.t().contiguous().t(), Status.OK), (torch.rand(3, 4).t(), Status.WRONG_VALUE)):
        found = compare([wanted], write([own], path), Outputs(path), Allowed(TOLERANCES, any_order=True))
        assert found["status"] == status
    found = compare([wanted], write([wanted.t().contiguous().t()], path), Outputs(path), Allowed(TOLERANCES))
    assert found["status"] == Status.WRONG_SHAPE


def test_an_input_that_the_reference_writes_to_is_a_result(tmp_path: Path) -> None:
    path, result, cache = tmp_path / "outputs", torch.rand(3), torch.rand(4)
    described = write([result, cache + 1], path)
    verdict = compare([result, cache], described, Outputs(path), Allowed(TOLERANCES), written=[2])
    assert verdict["status"] == Status.WRONG_VALUE
    assert verdict["message"].startswith("input 2, which the reference writes to: 4 of 4 elements")


def _described(output: object) -> dict[str, object]:
    from kernelwright.evaluators.workers.tensor_ipc import describe

    return describe(output)


@pytest.mark.parametrize("view", [torch.zeros(3, 4).t(), torch.zeros(5, 4)[1:], torch.zeros(4, 6)[:, ::2]])
def test_views_with_memory_for_each_element_are_results(view: torch.Tensor) -> None:
    assert _described(view)["stored"] is True


def test_absolute_and_relative_tolerance_are_apart(tmp_path: Path) -> None:
    """An error beside zero is held to the absolute tolerance, one of a large value to the relative one."""
    expected = torch.tensor([0.0, 100.0])
    for tolerance, near_zero, far in [
        (Tolerance(1e-2, 1e-6), True, False),
        (Tolerance(1e-6, 1e-2), False, True),
    ]:
        for error, passes in [((5e-3, 0.0), near_zero), ((0.0, 0.5), far)]:
            actual = expected + torch.tensor(error)
            assert close_everywhere(expected, actual, tolerance) == passes
            path = tmp_path / "outputs"
            verdict = compare([expected], write([actual], path), Outputs(path), Allowed({"float32": tolerance}))
            assert (verdict["status"] == Status.OK) == passes
            assert (verdict["absolute_tolerance"], verdict["tolerance"]) == tolerance[:2]


def test_a_difference_is_described_without_another_library() -> None:
    """Importing torch's symbolic shapes took two seconds while others waited for the device."""
    script = """
import sys, torch
from kernelwright.core import Tolerance
from kernelwright.evaluators.correctness.compare import EXACT, compare_tensor
one = torch.zeros(3, 4)
assert compare_tensor(one, one, Tolerance(1e-4, 1e-4))["status"] == "ok"
before = set(sys.modules)
other = one.clone()
other[1, 2] = 1.0
for found in (compare_tensor(one, other, Tolerance(1e-4, 1e-4)), compare_tensor(one.int(), other.int(), EXACT)):
    assert "(1, 2)" in found["message"], found
print(sorted(set(sys.modules) - before))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_the_relative_difference_is_that_in_fp64_and_not_a_number_where_values_are_not() -> None:
    exact = torch.randn(3, 70000)
    actual = exact * (1 + 1e-5 * torch.randn_like(exact))
    found = errors.relative_difference(exact, actual)
    assert found == pytest.approx(relative_error(exact, actual)[0], rel=1e-3)
    actual[1, 7] = torch.nan
    assert not errors.relative_difference(exact, actual) <= 1
    assert not errors.relative_difference(torch.zeros(4), torch.zeros(4)) <= 1
