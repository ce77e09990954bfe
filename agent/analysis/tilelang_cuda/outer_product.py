"""Finds products on the CUDA cores: a pipelined loop that copies two tiles and adds their outer products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from ..source import Statement
from ..template import match
from .builders import Builder, Copy, body_of, copy_of

PIPELINED = "T.Pipelined(q_n, num_stages=q_s)"
_LOOPS = (
    "T.unroll(q_step, unroll_factor=q_factor)",
    "T.unroll(q_step)",
    "T.serial(q_step)",
)
_PRODUCT = """
for q_k in {loop}:
    for q_i, q_j in T.Parallel(q_rows, q_columns):
        q_acc[q_i, q_j] += q_left * q_right
"""
_TRANSPOSITION = """
for q_n, q_k in T.Parallel(q_a, q_b):
    q_to[q_k, q_n] = q_from[q_n, q_k]
"""


@dataclass(frozen=True)
class Operand:
    """A tile of the product, as it is copied from its tensor."""

    copy: Copy
    turned: bool
    """Whether the step of the sum is the left operand's first axis, or the right one's last."""
    passed: tuple[str, ...]
    """The shared buffers that it passes through."""


@dataclass(frozen=True)
class OuterProduct:
    """`acc[i, j] += left[i, k] * right[k, j]` over k, in steps of a pipelined loop."""

    loop: cst.For
    count: str
    stages: str
    acc: str
    rows: str
    columns: str
    step: str
    left: Operand
    right: Operand


def product_of(builder: Builder) -> OuterProduct | None:
    """Return the only product of a builder; None where the loop does anything else, too."""
    loops = [
        s for s in builder.statements if isinstance(s, cst.For) and match("T.Pipelined(q_n, num_stages=q_s)", s.iter)
    ]
    if len(loops) != 1:
        return None
    loop = loops[0]
    *loads, last = body_of(loop)
    parts = product_parts(last)
    header = match(PIPELINED, loop.iter)
    if parts is None or header is None:
        return None
    copies = [copy for s in loads if (copy := copy_of(s))]
    turns = [turn for s in loads if (turn := match(_TRANSPOSITION, s))]
    rows, columns = (parts["i"], parts["k"]), (parts["k"], parts["j"])
    for one, other in (("left", "right"), ("right", "left")):
        left, right = _operand(parts[one], rows, copies, turns), _operand(parts[other], columns, copies, turns)
        if left and right:
            break
    if left is None or right is None or len(copies) + len(turns) != len(loads) or len(copies) != 2:
        return None
    if len({*left.passed, *right.passed}) != len(loads):
        return None
    return OuterProduct(
        loop, header["n"], header["s"], parts["acc"], parts["rows"], parts["columns"], parts["step"], left, right
    )


def product_parts(node: cst.CSTNode) -> dict[str, str] | None:
    """Return the parts of a sum of outer products, None for another statement."""
    return next((found for loop in _LOOPS if (found := match(_PRODUCT.format(loop=loop), node))), None)


def _operand(
    text: str, index: tuple[str, str], copies: Sequence[Copy], turns: Sequence[dict[str, str]]
) -> Operand | None:
    factor: cst.CSTNode = cst.parse_expression(text)
    known = {"a": index[0], "b": index[1]}
    straight, turned = match("q_tile[q_a, q_b]", factor, known), match("q_tile[q_b, q_a]", factor, known)
    found = straight or turned
    if found is None:
        return None
    tile, is_turned, passed = found["tile"], straight is None, [found["tile"]]
    for turn in turns:
        if turn["to"] == tile:
            tile, is_turned = turn["from"], not is_turned
            passed.append(tile)
    copy = next((item for item in copies if item.tile == tile), None)
    return Operand(copy, is_turned, tuple(passed)) if copy else None


def accumulator_of(builder: Builder, product: OuterProduct) -> Statement | None:
    """Return the statement that allocates the accumulator, an fp32 fragment of the product's size, else None."""
    kind, shape, statement = builder.tiles.get(product.acc, ("", (), None))
    return statement if kind == "fragment" and shape == (product.rows, product.columns) else None
