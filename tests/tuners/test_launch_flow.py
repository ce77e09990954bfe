"""Which constants reach which launch, by following values through a kernel file."""

from __future__ import annotations

import textwrap

import pytest
from kernelwright.tuners.by_launch.flow import constants_by_launch

TRITON = """
import torch, triton
import triton.language as tl

A = 1
B = 2
C = 3
{top}

@triton.jit
def helper(x):
    return x * {inside}

@triton.jit
def first(x, y, BLOCK: tl.constexpr):
    tl.store(y, helper(tl.load(x)))

@triton.jit
def second(x, y, BLOCK: tl.constexpr):
    tl.store(y, tl.load(x))

class ModelNew(torch.nn.Module):
    def forward(self, x):
{forward}
"""
TILELANG = """
import functools, tilelang, torch
import tilelang.language as T

A = 1
B = 2

@functools.cache
def build_parts(N, size):
    @T.prim_func
    def parts(X: T.Tensor((N,), "float32"), P: T.Tensor(({shape},), "float32")):
        with T.Kernel(N // size) as b:
            P[b] = X[b * size]
    return tilelang.compile(parts, out_idx=[-1])

@tilelang.jit(out_idx=[-1])
def build_total(N):
    @T.prim_func
    def total(P: T.Tensor((N,), "float32"), Y: T.Tensor((1,), "float32")):
        with T.Kernel(B) as b:
            Y[0] = P[b]
    return total

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = build_parts(64, A)

    def forward(self, x):
        p = self.parts(x)
        return build_total(p.shape[0])(p)
"""


def reached(forward: str, top: str = "", inside: str = "2") -> dict[str, str]:
    body = textwrap.indent(textwrap.dedent(forward).strip(), " " * 8)
    found = constants_by_launch(TRITON.format(top=top, inside=inside, forward=body), ["A", "B", "C"])
    return {name: "".join(sorted(constants)) for name, constants in found.items()}


@pytest.mark.parametrize(
    ("forward", "first", "second"),
    [
        ("first[(1,)](x, x, BLOCK=A)\nsecond[(1,)](x, x, BLOCK=B)", "A", "B"),
        ("first[(A, 1)](x, x, 1)\nsecond[lambda meta: (triton.cdiv(9, B),)](x, x, 1, num_warps=C)", "A", "BC"),
        ("y = torch.empty(9 // A)\nfirst[(1,)](x, y, 1)\nsecond[(1,)](y, x, BLOCK=B)", "A", "AB"),
        ("n, m = A, B\nfirst[(n,)](x, x, 1)\nsecond[(m,)](x, x, 1)", "A", "B"),
        ("size = A\nsize += B\nfirst[(size,)](x, x, 1)\nsecond[(1,)](x, x, BLOCK=C)", "AB", "C"),
        ("if A > 1:\n    first[(1,)](x, x, 1)\nelse:\n    second[(B,)](x, x, 1)", "A", "AB"),
        ("for part in range(A):\n    first[(part,)](x, x, 1)\nsecond[(B,)](x, x, 1)", "A", "B"),
        ("run = second\nfirst[(A,)](x, x, 1)\nrun[(B,)](x, x, 1)", "A", "B"),
        ("self.size = A\nfirst[(self.size,)](x, x, 1)\nsecond[(B,)](x, x, 1)", "A", "B"),
        ("first[sized(A)](x, x, 1)\nsecond[sized(B)](x, x, 1)", "AB", "AB"),  # one function, so both
        ("launch(first, x, A)\nsecond[(B,)](x, x, 1)", "A", "AB"),  # it launches what it is given
    ],
    ids=str,
)
def test_what_reaches_a_launch(forward: str, first: str, second: str) -> None:
    top = "def sized(n):\n    return (n,)\n\ndef launch(kernel, x, n):\n    kernel[(n,)](x, x, 1)\n"
    if "launch(first" in forward:
        forward += "\nlaunch(second, x, 1)"
    assert reached(forward, top) == {"first": first, "second": second}


def test_constants_in_a_kernels_text_and_in_its_helpers() -> None:
    forward = "first[(1,)](x, x, BLOCK=A)\nsecond[(1,)](x, x, BLOCK=B)"
    assert reached(forward, inside="C") == {"first": "AC", "second": "B"}
    assert reached(forward, top="D = 2 * C", inside="D") == {"first": "AC", "second": "B"}


@pytest.mark.parametrize("places", ["None", "'Y'", "[None]", "{[]: 1}"])
def test_places_of_results_that_are_none(places: str) -> None:
    source = TILELANG.format(shape="N").replace("out_idx=[-1]", f"out_idx={places}")
    assert constants_by_launch(source, ["A", "B"]).keys() == {"parts", "total"}


@pytest.mark.parametrize(("shape", "total"), [("N", {"B"}), ("N // size", {"A", "B"})])
def test_a_launch_that_returns_a_tensor_hands_on_what_decides_its_shape(shape: str, total: set[str]) -> None:
    found = constants_by_launch(TILELANG.format(shape=shape), ["A", "B"])
    assert found == {"parts": {"A"}, "total": total}


@pytest.mark.parametrize("source", ["def", "\0", f"x = {'-' * 5000}1"], ids=["syntax", "null", "nesting"])
def test_what_cannot_be_read_has_no_launches(source: str) -> None:
    assert constants_by_launch(source, ["A"]) == {}
