"""What counts as equal."""

from __future__ import annotations

import numpy as np
import pytest
from kernelwright.core import Status
from kernelwright.core.mlir_operation import TensorType
from kernelwright.core.problem import TOLERANCES
from kernelwright.evaluators.iree.comparison import compare

EXPECTED = np.linspace(-2, 2, 64, dtype=np.float32).reshape(8, 8)


def test_rounding_passes_and_is_measured() -> None:
    found = compare([EXPECTED], [EXPECTED * np.float32(1 + 1e-6)], TOLERANCES, "NumPy's")
    assert found.status is Status.OK and 0 < found.rms_error < 2e-6 and found.tolerance == 1e-4


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.5])
def test_one_wrong_element_is_named(value: float) -> None:
    wrong = EXPECTED.copy()
    wrong[3, 4] = value
    found = compare([EXPECTED], [wrong], TOLERANCES, "NumPy's")
    assert found.status is Status.WRONG_VALUE
    assert "1 of 64 elements differ from NumPy's; the first at (3, 4)" in found.message


def test_zeros_do_not_pass_for_small_results() -> None:
    small = EXPECTED * np.float32(1e-5)
    assert compare([small], [np.zeros_like(small)], TOLERANCES, "NumPy's").status is Status.WRONG_VALUE


def test_slack_widens_by_the_default_modules_own_error() -> None:
    off = EXPECTED + np.float32(1e-3)
    assert compare([EXPECTED], [off], TOLERANCES, "NumPy's").status is Status.WRONG_VALUE
    assert compare([EXPECTED], [off], TOLERANCES, "NumPy's", slack=1e-2).status is Status.OK


def test_kind_and_number_must_be_equal() -> None:
    assert compare([EXPECTED], [EXPECTED.T[:4]], TOLERANCES, "NumPy's").status is Status.WRONG_SHAPE
    assert compare([EXPECTED], [EXPECTED.astype(np.float64)], TOLERANCES, "NumPy's").status is Status.WRONG_DTYPE
    assert compare([EXPECTED], [], TOLERANCES, "NumPy's").status is Status.WRONG_SHAPE


def test_bf16_is_a_float_with_its_own_tolerance() -> None:
    expected = EXPECTED.astype(TensorType((8, 8), "bf16").dtype)
    near = (expected.astype(np.float32) * 1.005).astype(expected.dtype)
    found = compare([expected], [near], TOLERANCES, "NumPy's")
    assert found.status is Status.OK and 0 < found.rms_error < 1e-2 and found.tolerance == 1e-2
    far = (expected.astype(np.float32) * 1.125).astype(expected.dtype)
    assert "first at (0, 0): -2.25 against -2" in compare([expected], [far], TOLERANCES, "NumPy's").message


def test_whole_numbers_must_be_equal_whatever_the_slack() -> None:
    numbers = np.arange(6, dtype=np.int32)
    assert compare([numbers], [numbers], TOLERANCES, "NumPy's").status is Status.OK
    assert compare([numbers], [numbers + 1], TOLERANCES, "NumPy's", slack=9).status is Status.WRONG_VALUE
