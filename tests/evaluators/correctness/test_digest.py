"""Digests notice every change of a tensor's bits, and nothing else."""

import random

import numpy
import pytest
import torch
from kernelwright.evaluators.correctness.digest import ROW, digest

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float8_e5m2, torch.int64, torch.bool, torch.complex64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [7, 2 * ROW, 3 * ROW + 5])
def test_one_changed_bit_shows(dtype: torch.dtype, size: int) -> None:
    tensor = torch.randint(0, 2, (size,)).to(dtype)
    before, number = digest(tensor), random.Random(size)
    assert torch.equal(digest(tensor.clone()), before)
    octets = tensor.view(torch.uint8)
    for place in [0, octets.numel() - 1, *(number.randrange(octets.numel()) for _ in range(20))]:
        octets[place] ^= 1 if dtype is torch.bool else 1 << number.randrange(8)
        assert not torch.equal(digest(tensor), before)
        before = digest(tensor)


def test_elements_that_change_places_show() -> None:
    tensor = torch.arange(3 * ROW, dtype=torch.float32)
    for shift in (1, ROW):
        assert not torch.equal(digest(tensor.roll(shift)), digest(tensor))


def test_bits_count_in_logical_order() -> None:
    tensor = torch.randn(300, 200)
    assert torch.equal(digest(tensor.T.contiguous().T), digest(tensor))
    assert not torch.equal(digest(torch.tensor([0.0])), digest(torch.tensor([-0.0])))
    nan = torch.full((ROW,), float("nan"))
    assert torch.equal(digest(nan), digest(nan.clone()))


def test_a_kernel_in_the_same_process_cannot_replace_what_sums() -> None:
    with pytest.raises(TypeError):
        numpy.ndarray.dot = lambda *_: 0
