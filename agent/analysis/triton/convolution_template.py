"""Reads a convolution as torch's compiler writes it from its template, in two or three dimensions."""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from ....core.syntax_tree import syntax_tree
from ..source import code, names
from .dots import dots_of
from .function import Function
from .kernel import Launch
from .sums import assigned_names, read_first

_POINTERS = ("X", "W")
ANY = "ANY"
"""Stands for what may be anything: the order of programs, and the product."""
_AXES = "DHW"
_TEXT = {
    2: """
idx_y_w = nhw % OUT_W
nh = nhw // OUT_W
idx_y_h = nh % OUT_H
idx_n = nh // OUT_H
idx_y_c = ANY
group = 0
GROUP_IN_C = IN_C
GROUP_OUT_C = OUT_C
x_base = X + (group * stride_xc * GROUP_IN_C + idx_n * stride_xn)[:, None]
w_base = W + (group * stride_wc_out * GROUP_OUT_C + idx_y_c * stride_wc_out)[None, :]
acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
BLOCK_K_COUNT = (GROUP_IN_C + BLOCK_K - 1) // BLOCK_K
for ijk in range(KERNEL_H * KERNEL_W * BLOCK_K_COUNT):
    k = (ijk % BLOCK_K_COUNT) * BLOCK_K
    ij = ijk // BLOCK_K_COUNT
    i = ij // KERNEL_W
    j = ij % KERNEL_W
    idx_x_h = i - PADDING_H + idx_y_h * STRIDE_H
    idx_x_w = j - PADDING_W + idx_y_w * STRIDE_W
    idx_x_c = tl.arange(0, BLOCK_K) + k
    x_ptrs = x_base + (
        (idx_x_h * stride_xh)[:, None] + (idx_x_w * stride_xw)[:, None] + (idx_x_c * stride_xc)[None, :]
    )
    mask_x = (
        (idx_n < BATCH)[:, None]
        & (idx_x_h >= 0)[:, None] & (idx_x_h < IN_H)[:, None]
        & (idx_x_w >= 0)[:, None] & (idx_x_w < IN_W)[:, None]
        & (idx_x_c < GROUP_IN_C)[None, :]
    )
    matrix_x = tl.load(x_ptrs, mask=mask_x, other=0.0)
    w_ptrs = w_base + ((idx_x_c * stride_wc_in)[:, None] + (i * stride_wh) + (j * stride_ww))
    mask_w = (idx_x_c[:, None] < GROUP_IN_C) & (idx_y_c[None, :] < GROUP_OUT_C)
    matrix_w = tl.load(w_ptrs, mask=mask_w, other=0.0)
    ANY
""",
    3: """
idx_y_w = ndhw % OUT_W
ndh = ndhw // OUT_W
idx_y_h = ndh % OUT_H
nd = ndh // OUT_H
idx_y_d = nd % OUT_D
idx_n = nd // OUT_D
idx_y_c = ANY
group = 0
GROUP_IN_C = IN_C
GROUP_OUT_C = OUT_C
x_base = X + (group * stride_xc * GROUP_IN_C + idx_n * stride_xn)[:, None]
w_base = W + (group * stride_wc_out * GROUP_OUT_C + idx_y_c * stride_wc_out)[None, :]
acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
BLOCK_K_COUNT = (GROUP_IN_C + BLOCK_K - 1) // BLOCK_K
for dijk in range(KERNEL_D * KERNEL_H * KERNEL_W * BLOCK_K_COUNT):
    k = (dijk % BLOCK_K_COUNT) * BLOCK_K
    dij = dijk // BLOCK_K_COUNT
    j = dij % KERNEL_W
    di = dij // KERNEL_W
    i = di % KERNEL_H
    d = di // KERNEL_H
    idx_x_d = d - PADDING_D + idx_y_d * STRIDE_D
    idx_x_h = i - PADDING_H + idx_y_h * STRIDE_H
    idx_x_w = j - PADDING_W + idx_y_w * STRIDE_W
    idx_x_c = tl.arange(0, BLOCK_K) + k
    x_ptrs = x_base + (
        (idx_x_d * stride_xd)[:, None] + (idx_x_h * stride_xh)[:, None] + (idx_x_w * stride_xw)[:, None]
        + (idx_x_c * stride_xc)[None, :]
    )
    mask_x = (
        (idx_n < BATCH)[:, None]
        & (idx_x_d >= 0)[:, None] & (idx_x_d < IN_D)[:, None]
        & (idx_x_h >= 0)[:, None] & (idx_x_h < IN_H)[:, None]
        & (idx_x_w >= 0)[:, None] & (idx_x_w < IN_W)[:, None]
        & (idx_x_c < GROUP_IN_C)[None, :]
    )
    matrix_x = tl.load(x_ptrs, mask=mask_x, other=0.0)
    w_ptrs = w_base + (
        (idx_x_c * stride_wc_in)[:, None] + (d * stride_wd) + (i * stride_wh) + (j * stride_ww)
    )
    mask_w = (idx_x_c[:, None] < GROUP_IN_C) & (idx_y_c[None, :] < GROUP_OUT_C)
    matrix_w = tl.load(w_ptrs, mask=mask_w, other=0.0)
    ANY
""",
}


@dataclass(frozen=True)
class Convolution:
    """A convolution that sums one filter tap after the other, some input channels at a time.

    Sizes of axes are those of D, H and W; D is 1 long in two dimensions.
    """

    launch: Launch
    rank: int
    sizes: Mapping[str, int]
    """Numbers of the function by name: BATCH, IN_C, KERNEL_H, stride_xc."""
    x: str
    """The parameter of the input."""
    weight: str
    bases: tuple[cst.CSTNode, cst.CSTNode]
    """The statements that add what does not change in the loop to the pointers."""
    count: cst.CSTNode
    """The statement with the number of steps over channels."""
    loop: cst.For

    def of_axes(self, kind: str, otherwise: int) -> tuple[int, ...]:
        """Return a number of each axis, such as `KERNEL_` or `stride_x`, and another one for axes that are none."""
        lower = kind.startswith("stride")
        return tuple(self.sizes.get(f"{kind}{axis.lower() if lower else axis}", otherwise) for axis in _AXES)

    @property
    def taps(self) -> int:
        """How many a filter has."""
        return math.prod(self.of_axes("KERNEL_", 1))


def convolution_of(launch: Launch) -> Convolution | None:
    """Return the convolution that a launch's function is; None for any other, one of groups, or one rewritten."""
    function = launch.function
    body = list(function.node.body.body)
    loops = [i for i, one in enumerate(body) if isinstance(one, cst.For)]
    if len(loops) != 1:
        return None
    for rank, lines in _templates().items():
        start = loops[0] + 1 - len(lines)
        if start < 0 or not _fits(body[start : loops[0] + 1], lines):
            continue
        sizes = _numbers(function)
        x, weight = (function.base(cst.Name(name)) for name in _POINTERS)
        loop = cst.ensure_type(body[loops[0]], cst.For)
        if (
            x is None
            or weight is None
            or not _is_complete(rank, sizes)
            or not _ends(function, loop, body[loops[0] + 1 :])
        ):
            continue
        if not all(item in launch.arguments and function.touches_once(item) for item in (x, weight)):
            continue
        at = start + next(i for i, line in enumerate(lines) if line.startswith("x_base"))
        return Convolution(launch, rank, sizes, x, weight, (body[at], body[at + 1]), body[loops[0] - 1], loop)
    return None


@functools.cache
def _templates() -> Mapping[int, Sequence[str]]:
    return {rank: [ast.unparse(statement) for statement in syntax_tree(text).body] for rank, text in _TEXT.items()}


def _fits(found: Sequence[cst.CSTNode], lines: Sequence[str]) -> bool:
    """Return whether statements are those of the template, but for what stands for anything."""
    for node, line in zip(found, lines, strict=True):
        (present,) = syntax_tree(code(node)).body
        if line.endswith(f"= {ANY}") and isinstance(present, ast.Assign):
            present.value = ast.Name(ANY)
        elif line.endswith(ANY) and isinstance(present, ast.For):
            present.body[-1] = ast.Expr(ast.Name(ANY))
        if ast.unparse(present) != line:
            return False
    return True


def _numbers(function: Function) -> dict[str, int]:
    texts = {name: function.literal(cst.Name(name)) for name in function.assignments}
    return {name: int(text) for name, text in texts.items() if text is not None and text.isdigit()}


def _is_complete(rank: int, sizes: Mapping[str, int]) -> bool:
    """Return whether all sizes are numbers, and no tap of a pixel of the output lies beyond the border."""
    axes = _AXES[-rank:]
    needed = ["BATCH", "IN_C", "OUT_C", "stride_xn", "stride_xc", "stride_wc_out", "stride_wc_in"]
    kinds = ("IN_", "OUT_", "KERNEL_", "STRIDE_", "PADDING_")
    needed += [f"{kind}{axis}" for kind in kinds for axis in axes]
    needed += [f"stride_{tensor}{axis.lower()}" for tensor in "xw" for axis in axes]
    if not {*needed} <= {*sizes}:
        return False
    return all(
        (sizes[f"OUT_{axis}"] - 1) * sizes[f"STRIDE_{axis}"] + sizes[f"KERNEL_{axis}"]
        <= sizes[f"IN_{axis}"] + 2 * sizes[f"PADDING_{axis}"]
        for axis in axes
    )


def _ends(function: Function, loop: cst.For, rest: Sequence[cst.CSTNode]) -> bool:
    """Return whether the loop's last line adds the product of what it loads, and no later line reads its values."""
    *before, last = loop.body.body
    products = [(dot.statement, dot.accumulator, code(dot.left), code(dot.right)) for dot in dots_of(function)]
    gone = {*assigned_names(before), *names(loop.target), *_POINTERS, "x_base", "w_base", "BLOCK_K_COUNT"}
    whole = products == [(last, "acc", "matrix_x", "matrix_w")] and names(last) & gone == {"matrix_x", "matrix_w"}
    return whole and not read_first(rest) & gone
