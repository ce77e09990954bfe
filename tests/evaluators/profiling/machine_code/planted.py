"""Triton kernels, each with one defect or none, to be compiled without a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


def compiled(kernel: Any, types: Mapping[str, str], constants: Mapping[str, Any], **options: Any) -> Any:
    """Compile a kernel for sm_90; its pointers and integers are multiples of 16."""
    source = ASTSource(
        fn=kernel,
        signature={**types, **dict.fromkeys(constants, "constexpr")},
        constexprs=dict(constants),
        attrs={(index,): [["tt.divisibility", 16]] for index in range(len(types))},
    )
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


@triton.jit
def softmax(x, y, n, N: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0)
    at = tl.arange(0, N)
    value = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    power = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * n + at, power / tl.sum(power, 0), mask=at < n)


@triton.jit
def spilling(x, y, N: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, N)
    tile = tl.load(x + at)
    tl.store(y + at, tile - tl.sum(tile))


@triton.jit
def two_passes(x, y, n, N: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0)
    total = tl.zeros((N,), tl.float32)
    for start in range(0, n, N):
        at = start + tl.arange(0, N)
        value = tl.load(x + row * n + at, mask=at < n, other=0.0)
        total += value * value
    scale = tl.rsqrt(tl.sum(total, 0) / n)
    for start in range(0, n, N):
        at = start + tl.arange(0, N)
        value = tl.load(x + row * n + at, mask=at < n, other=0.0)
        tl.store(y + row * n + at, value * scale, mask=at < n)


@triton.jit
def product(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # type: ignore[no-untyped-def]
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        left = tl.load(a + rows[:, None] * K + (k + inner)[None, :])
        right = tl.load(b + (k + inner)[:, None] * N + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))


@triton.jit
def chained(q, k, v, o, n, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):  # type: ignore[no-untyped-def]
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    inner = tl.arange(0, D)
    queries = tl.load(q + rows[:, None] * D + inner[None, :])
    total = tl.zeros((BM, D), tl.float32)
    for start in range(0, n, BN):
        at = start + tl.arange(0, BN)
        keys = tl.load(k + at[None, :] * D + inner[:, None])
        scores = tl.exp2(tl.dot(queries, keys))
        values = tl.load(v + at[:, None] * D + inner[None, :])
        total = tl.dot(scores.to(tl.float16), values, total)
    tl.store(o + rows[:, None] * D + inner[None, :], total.to(tl.float16))


@triton.jit
def short_rows(x, y, n, N: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, N)
    for k in range(0, n):
        row = tl.program_id(0) * n + k
        tl.store(y + row * N + at, tl.load(x + row * N + at) * 2.0)


@triton.jit
def by_columns(x, y, n, N: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0) * N + tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for k in range(0, n):
        total += tl.load(x + row * n + k)
    tl.store(y + row, total)
