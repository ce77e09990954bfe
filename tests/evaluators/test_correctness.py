from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernelwright.core import Status
from kernelwright.evaluators import correctness
from kernelwright.evaluators.correctness import compare_tensor

numbers = st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=40)


@settings(deadline=None)
@given(numbers, st.integers(1, 7))
def test_agrees_with_allclose_whatever_the_chunk(values: list[float], chunk: int) -> None:
    expected = torch.tensor(values)
    generator = torch.Generator().manual_seed(chunk)
    actual = expected + torch.randn(len(values), generator=generator) * 1e-4
    before, correctness.CHUNK = correctness.CHUNK, chunk
    try:
        verdict = compare_tensor(expected, actual, 1e-4)
    finally:
        correctness.CHUNK = before
    same = torch.allclose(actual.double(), expected.double(), atol=1e-4, rtol=1e-4)
    assert (verdict["status"] == Status.OK) == same
    assert verdict["max_abs_error"] == pytest.approx(float((actual.double() - expected.double()).abs().max()))


@pytest.mark.parametrize("special", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_infinity_only_where_expected(special: float) -> None:
    plain, odd = torch.ones(3), torch.tensor([1.0, special, 1.0])
    assert compare_tensor(odd, odd, 1e-4)["status"] == Status.OK
    assert compare_tensor(plain, odd, 1e-4)["status"] == Status.WRONG_VALUE
    assert compare_tensor(odd, plain, 1e-4)["status"] == Status.WRONG_VALUE


def test_names_the_first_wrong_element() -> None:
    expected = torch.zeros(2, 3, 4)
    actual = expected.clone()
    actual[1, 2, 3] = 5
    verdict = compare_tensor(expected, actual, 1e-4)
    assert "1 of 24 elements" in verdict["message"]
    assert "(1, 2, 3): 5 against 0" in verdict["message"]


def test_integers_must_be_equal() -> None:
    assert compare_tensor(torch.tensor([1, 2]), torch.tensor([1, 2]), 0.0)["status"] == Status.OK
    assert compare_tensor(torch.tensor([1, 2]), torch.tensor([1, 3]), 0.0)["status"] == Status.WRONG_VALUE


def test_scalars_and_empty_tensors() -> None:
    assert compare_tensor(torch.tensor(1.0), torch.tensor(1.0), 1e-4)["status"] == Status.OK
    assert compare_tensor(torch.tensor(1.0), torch.tensor(2.0), 1e-4)["status"] == Status.WRONG_VALUE
    assert compare_tensor(torch.empty(0, 3), torch.empty(0, 3), 1e-4)["status"] == Status.OK
