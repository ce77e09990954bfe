"""Kernels and examples that are made up: parsed, never run."""

from __future__ import annotations

from kernelwright.core import Gain, Target, WorkedExample, find_language

TRITON = '''"""{doc}"""

import torch
import triton
import triton.language as tl
from torch import nn

BLOCK = 1024


@triton.jit
def kernel({parameters}):
{body}


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), BLOCK),)]({arguments})
        return y
'''

TILELANG = '''"""{doc}"""

import functools

import tilelang
import {module} as T
import torch
from torch import nn

{top}


@functools.cache
def build(M, N, K):
    @T.prim_func
    def kernel(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
{body}

    return tilelang.compile(kernel, out_idx=[-1])


class ModelNew(nn.Module):
    def forward(self, a, b):
        return build(a.shape[0], b.shape[1], a.shape[1])(a, b)
'''


def _indented(body: str, spaces: int) -> str:
    return "\n".join(" " * spaces + line if line else line for line in body.strip("\n").splitlines())


def triton(
    body: str,
    parameters: str = "x_ptr, y_ptr, n, BLOCK: tl.constexpr",
    arguments: str = "x, y, x.numel(), BLOCK=BLOCK",
    doc: str = "A kernel.",
) -> str:
    """A Triton kernel file with this body."""
    return TRITON.format(body=_indented(body, 4), parameters=parameters, arguments=arguments, doc=doc)


def tilelang(body: str, cpu: bool = False, top: str = "BLOCK = 64", doc: str = "A kernel.") -> str:
    """A TileLang kernel file with this body."""
    module = "tilelang.cpu.language" if cpu else "tilelang.language"
    return TILELANG.format(body=_indented(body, 8), module=module, top=top, doc=doc)


RELU = triton("""
offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
x = tl.load(x_ptr + offs, mask=offs < n)
tl.store(y_ptr + offs, tl.maximum(x, 0.0), mask=offs < n)
""")

PRODUCT_TF32 = triton("""
pid_m = tl.program_id(0)
pid_n = tl.program_id(1)
offs_m = pid_m * 64 + tl.arange(0, 64)
offs_n = pid_n * 64 + tl.arange(0, 64)
offs_k = tl.arange(0, 32)
acc = tl.zeros((64, 64), dtype=tl.float32)
for k in range(0, n, 32):
    a = tl.load(x_ptr + offs_m[:, None] * n + k + offs_k[None, :])
    b = tl.load(x_ptr + (k + offs_k[:, None]) * n + offs_n[None, :])
    acc = tl.dot(a, b, acc)
tl.store(y_ptr + offs_m[:, None] * n + offs_n[None, :], acc)
""")
ONLINE = triton("""
largest = -float("inf")
total = 0.0
for start in range(0, n, BLOCK):
    x = tl.load(x_ptr + start + tl.arange(0, BLOCK))
    grown = tl.maximum(largest, tl.max(x, axis=0))
    total = total * tl.exp(largest - grown) + tl.sum(tl.exp(x - grown), axis=0)
    largest = grown
tl.store(y_ptr, total)
""")
TWO_PASSES = triton("""
largest = -float("inf")
for start in range(0, n, BLOCK):
    largest = tl.maximum(largest, tl.max(tl.load(x_ptr + start + tl.arange(0, BLOCK)), axis=0))
total = 0.0
for start in range(0, n, BLOCK):
    total += tl.sum(tl.exp(tl.load(x_ptr + start + tl.arange(0, BLOCK)) - largest), axis=0)
tl.store(y_ptr, total)
""")
TEXTBOOK = tilelang(
    """
with T.Kernel(M, N) as (i, j):
    acc = T.alloc_local((1,), "float32")
    acc[0] = 0.0
    for k in T.serial(K):
        acc[0] += A[i, k] * B[k, j]
    C[i, j] = acc[0]
""",
    cpu=True,
)
REGISTERS = tilelang(
    """
with T.Kernel(M // 4, N // 32) as (bi, bj):
    acc = T.alloc_local((4, 32), "float32")
    T.clear(acc)
    for k in T.serial(K):
        for i in T.serial(4):
            for j in T.serial(32):
                acc[i, j] += A[bi * 4 + i, k] * B[k, bj * 32 + j]
    for i, j in T.grid(4, 32):
        C[bi * 4 + i, bj * 32 + j] = acc[i, j]
""",
    cpu=True,
)


def example(slug: str = "triton/one", **changes: object) -> WorkedExample:
    """A made-up example; `changes` are fields of it."""
    fields: dict[str, object] = {
        "slug": slug,
        "title": "Rectified linear unit with wide accesses",
        "language": find_language("triton"),
        "target": Target.CUDA,
        "operation": "elementwise",
        "category": "memory",
        "techniques": ("vectorized-access",),
        "before": RELU,
        "after": RELU.replace("BLOCK = 1024", "BLOCK = 4096"),
        "story": "Small blocks move too little at once; larger ones use wide loads.",
        **changes,
    }
    return WorkedExample(**fields)  # type: ignore[arg-type]


GAIN = Gain(before_ms=2.0, after_ms=1.0, speedup=2.0, low=1.9, high=2.1, device="NVIDIA H200")
