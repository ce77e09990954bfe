"""Memory is filled to its end with bytes that nobody knows before."""

from __future__ import annotations

import pytest
import torch
from kernelwright.evaluators.replay import random_bytes
from kernelwright.evaluators.replay.random_bytes import RandomBytes


@pytest.mark.parametrize("length", [1, 1000, 1024, 5000])
def test_all_of_the_memory_is_filled_anew(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    monkeypatch.setattr(random_bytes, "LENGTH", 1024)
    memory, random = torch.zeros(length + 16, dtype=torch.uint8), RandomBytes("cpu")
    filled = []
    for _ in range(64):
        random.fill(memory[:length])
        filled.append(memory.clone())
    values = torch.stack(filled)
    assert not values[:, length:].any(), "and nothing beyond it"
    assert (values[:, :length].float().std(0) > 30).all(), "each byte takes other values"


def test_it_has_numbers_that_are_none() -> None:
    memory = torch.zeros(1 << 16, dtype=torch.uint8)
    RandomBytes("cpu").fill(memory)
    share = float((~memory.view(torch.float32).isfinite()).float().mean())
    assert 1 / 512 < share < 1 / 128


def test_the_random_numbers_of_operators_are_what_they_were() -> None:
    torch.manual_seed(5)
    expected = torch.rand(4)
    torch.manual_seed(5)
    RandomBytes("cpu").fill(torch.zeros(64, dtype=torch.uint8))
    assert torch.equal(torch.rand(4), expected)
