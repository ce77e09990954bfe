"""Functions as users write them, with arguments and results of many forms, in Triton's interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import kernelwright
import pytest

FUNCTIONS = """
import os
from typing import overload

import numpy as np
import torch
import triton
import triton.language as tl



@triton.jit
def _add(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


def added(x, y, dtype=None):
    z = torch.empty(x.shape, dtype=dtype or x.dtype)
    if x.numel():
        _add[(triton.cdiv(x.numel(), 64),)](x, y, z, x.numel(), BLOCK=64)
    return z


def added_torch(x, y, dtype=None):
    return (x + y).to(dtype or x.dtype)


@overload
def overloaded(x: torch.Tensor, y: int) -> int: ...
@overload
def overloaded(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor: ...
def overloaded(x, y):
    return added(x, y)


if os.environ.get("FAST") == "1":
    def chosen(x, y):
        return added(x, y)
else:
    def chosen(x, y):
        return added(x, y)


def each(xs, ys):
    return [added(x, y) for x, y in zip(xs, ys)]


def each_torch(xs, ys):
    return [x + y for x, y in zip(xs, ys)]


def written(x, y, out):
    out.copy_(added(x, y))
    return out


def written_torch(x, y, out):
    return torch.add(x, y, out=out)


@triton.jit
def _quantize(x, q, s, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=0.0)
    scale = tl.maximum(tl.max(tl.abs(value), axis=0), 1e-10) / 448.0
    tl.store(s + row, scale)
    tl.store(q + row * n + at, (value / scale).to(q.dtype.element_ty), mask=at < n)


def quantized(x):
    q, s = torch.empty(x.shape, dtype=torch.float8_e4m3fn), torch.empty(len(x))
    _quantize[(len(x),)](x, q, s, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return q, s


def quantized_torch(x):
    scale = x.abs().amax(1).clamp(min=1e-10) / 448.0
    return (x / scale[:, None]).to(torch.float8_e4m3fn), scale


def of_eight_bits(q, y):
    return added(q.float(), y)


def of_eight_bits_torch(q, y):
    return q.float() + y


def by_sizes(x, y, sizes):
    assert int(sizes.sum()) == x.numel()
    return added(x, y)


def by_sizes_torch(x, y, sizes):
    return x + y


def rows(seed, n=100):
    return [torch.randn(5, n)]


def eight_bits(seed, n=300):
    return [torch.randn(n).to(torch.float8_e5m2), torch.randn(n)]


def with_array(seed, n=300):
    return [*two(seed, n), np.array([n // 2, n - n // 2])]


def two(seed, n=300):
    return [torch.randn(n), torch.randn(n)]


def with_dtype(seed, n=300):
    return [*two(seed, n), torch.float16]


def lists(seed, n=300):
    return [two(seed, n), two(seed, n)]


def leaves(seed, n=300):
    return [torch.randn(n, requires_grad=True), torch.nn.Parameter(torch.randn(n))]


def same(seed, n=300):
    return [torch.randn(n)] * 2


def overlapping(seed, n=300):
    x = torch.randn(n + 1)
    return [x[:-1], x[1:]]


def with_out(seed, n=300):
    return [*two(seed, n), torch.empty(n)]


def no_rows(seed):
    return two(seed, 0)
"""
CASES = [
    *[("added", "added_torch", inputs) for inputs in ("two", "with_dtype", "leaves", "same", "overlapping", "no_rows")],
    *[(name, "added_torch", "two") for name in ("overloaded", "chosen")],
    ("each", "each_torch", "lists"),
    ("written", "written_torch", "with_out"),
    ("quantized", "quantized_torch", "rows"),
    ("of_eight_bits", "of_eight_bits_torch", "eight_bits"),
    ("by_sizes", "by_sizes_torch", "with_array"),
]


@pytest.fixture(scope="module")
def session() -> Iterator[kernelwright.Session]:
    with kernelwright.Session(device="cpu", sandbox="none") as shared:
        yield shared


@pytest.mark.parametrize(("function", "reference", "inputs"), CASES)
def test_what_is_correct_is_found_correct(
    function: str, reference: str, inputs: str, tmp_path: Path, session: kernelwright.Session
) -> None:
    """In a file whose name is that of a module of Python."""
    (path := tmp_path / "io.py").write_text(FUNCTIONS)
    found = session.evaluate(f"{path}::{function}", reference=f"{path}::{reference}", inputs=f"{path}::{inputs}")
    assert found.correct, found.evaluation
