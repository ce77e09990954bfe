"""Reads a convolution as torch's compiler writes it from its template, in two or three dimensions."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from ..applicability import need
from ..source import code, names, statements
from ..template import matches
from ..tree import block_of
from .dots import assigned_names, dots_of, read_first
from .function import Function
from .kernel import Launch

_POINTERS = ("X", "W")
_AXES = "DHW"
_TEXT = """
{places}
idx_y_c = q_order_of_programs
group = 0
GROUP_IN_C = IN_C
GROUP_OUT_C = OUT_C
x_base = X + (group * stride_xc * GROUP_IN_C + idx_n * stride_xn)[:, None]
w_base = W + (group * stride_wc_out * GROUP_OUT_C + idx_y_c * stride_wc_out)[None, :]
acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
BLOCK_K_COUNT = (GROUP_IN_C + BLOCK_K - 1) // BLOCK_K
for {steps[0]} in range({kernel} * BLOCK_K_COUNT):
    k = ({steps[0]} % BLOCK_K_COUNT) * BLOCK_K
    {steps[1]}
    {indices}
    idx_x_c = tl.arange(0, BLOCK_K) + k
    x_ptrs = x_base + ({x_offsets} + (idx_x_c * stride_xc)[None, :])
    mask_x = (idx_n < BATCH)[:, None] & {x_masks} & (idx_x_c < GROUP_IN_C)[None, :]
    matrix_x = tl.load(x_ptrs, mask=mask_x, other=0.0)
    w_ptrs = w_base + ((idx_x_c * stride_wc_in)[:, None] + {w_offsets})
    mask_w = (idx_x_c[:, None] < GROUP_IN_C) & (idx_y_c[None, :] < GROUP_OUT_C)
    matrix_w = tl.load(w_ptrs, mask=mask_w, other=0.0)
    q__
"""
_PLACES = {
    2: "idx_y_w = nhw % OUT_W; nh = nhw // OUT_W; idx_y_h = nh % OUT_H; idx_n = nh // OUT_H",
    3: "idx_y_w = ndhw % OUT_W; ndh = ndhw // OUT_W; idx_y_h = ndh % OUT_H; nd = ndh // OUT_H; "
    "idx_y_d = nd % OUT_D; idx_n = nd // OUT_D",
}
_STEPS = {
    2: ("ijk", "ij = ijk // BLOCK_K_COUNT; i = ij // KERNEL_W; j = ij % KERNEL_W"),
    3: (
        "dijk",
        "dij = dijk // BLOCK_K_COUNT; j = dij % KERNEL_W; di = dij // KERNEL_W; i = di % KERNEL_H; d = di // KERNEL_H",
    ),
}


@dataclass(frozen=True)
class ConvolutionTemplate:
    """A convolution that sums one filter tap after the other, some input channels at a time.

    Axes are D, H and W. In two dimensions the size of D is 1.
    """

    launch: Launch
    rank: int
    sizes: Mapping[str, int]
    """Numbers of the function by name: BATCH, IN_C, KERNEL_H, stride_xc."""
    x: str
    """The parameter of the input."""
    weight: str
    replaced: tuple[cst.CSTNode, ...]
    """Statements that add loop-invariant offsets to the pointers, and that count steps over channels."""
    loop: cst.For

    def of_axes(self, kind: str, otherwise: int) -> tuple[int, ...]:
        """Return a number of each axis, such as `KERNEL_` or `stride_x`, and another one for axes that are none."""
        lower = kind.startswith("stride")
        return tuple(self.sizes.get(f"{kind}{axis.lower() if lower else axis}", otherwise) for axis in _AXES)

    @property
    def taps(self) -> int:
        """The number of filter taps."""
        return math.prod(self.of_axes("KERNEL_", 1))


def convolution_of(launch: Launch) -> ConvolutionTemplate:
    """Return the convolution that a launch's function is.

    Raises NotApplicableError for one of groups, or one rewritten.
    """
    none = "the function is not a convolution of the template of torch's compiler"
    return need(next(filter(None, (_convolution(launch, rank) for rank in _PLACES)), None), none)


def _convolution(launch: Launch, rank: int) -> ConvolutionTemplate | None:
    function, body, lines = launch.function, block_of(launch.function.node), _template(rank)
    loops = [i for i, statement in enumerate(body) if isinstance(statement, cst.For)]
    end = loops[0] + 1 if len(loops) == 1 else 0
    if end < len(lines) or not all(map(matches, body[end - len(lines) : end], lines)):
        return None
    sizes = function.numbers
    x, weight = (function.base(cst.Name(name)) for name in _POINTERS)
    loop = cst.ensure_type(body[end - 1], cst.For)
    known = all(item in launch.arguments and function.touches_once(item) for item in (x, weight) if item)
    whole = known and _is_complete(rank, sizes) and _ends(function, loop, body[end:])
    if x is None or weight is None or not whole:
        return None
    x_base, w_base, _, count = body[end - 5 : end - 1]
    return ConvolutionTemplate(launch, rank, sizes, x, weight, (x_base, w_base, count), loop)


@functools.cache
def _template(rank: int) -> Sequence[str]:
    axes, taps = _AXES[-rank:], "dij"[-rank:]
    parts = [(axis, axis.lower(), tap) for axis, tap in zip(axes, taps, strict=True)]
    text = _TEXT.format(
        places=_PLACES[rank],
        steps=_STEPS[rank],
        kernel=" * ".join(f"KERNEL_{axis}" for axis in axes),
        indices="; ".join(f"idx_x_{x} = {tap} - PADDING_{axis} + idx_y_{x} * STRIDE_{axis}" for axis, x, tap in parts),
        x_offsets=" + ".join(f"(idx_x_{x} * stride_x{x})[:, None]" for _, x, _ in parts),
        x_masks=" & ".join(f"(idx_x_{x} >= 0)[:, None] & (idx_x_{x} < IN_{axis})[:, None]" for axis, x, _ in parts),
        w_offsets=" + ".join(f"({tap} * stride_w{x})" for _, x, tap in parts),
    )
    *lines, loop = statements(text)
    return [*(code(part) for line in lines for part in cst.ensure_type(line, cst.SimpleStatementLine).body), code(loop)]


def _is_complete(rank: int, sizes: Mapping[str, int]) -> bool:
    """Return whether all sizes are numbers, and no tap of any output pixel is beyond the border."""
    axes = _AXES[-rank:]
    needed = ["BATCH", "IN_C", "OUT_C", "stride_xn", "stride_xc", "stride_wc_out", "stride_wc_in"]
    kinds = ("IN_", "OUT_", "KERNEL_", "STRIDE_", "PADDING_")
    needed += [f"{kind}{axis}" for kind in kinds for axis in axes]
    needed += [f"stride_{tensor}{axis.lower()}" for tensor in "xw" for axis in axes]
    return {*needed} <= {*sizes} and all(
        (sizes[f"OUT_{axis}"] - 1) * sizes[f"STRIDE_{axis}"] + sizes[f"KERNEL_{axis}"]
        <= sizes[f"IN_{axis}"] + 2 * sizes[f"PADDING_{axis}"]
        for axis in axes
    )


def _ends(function: Function, loop: cst.For, rest: Sequence[cst.CSTNode]) -> bool:
    """Return whether the loop's last line adds the product of its loads, and no later line reads its values."""
    *before, last = loop.body.body
    products = [(dot.statement, dot.accumulator, code(dot.left), code(dot.right)) for dot in dots_of(function)]
    gone = {*assigned_names(before), *names(loop.target), *_POINTERS, "x_base", "w_base", "BLOCK_K_COUNT"}
    whole = products == [(last, "acc", "matrix_x", "matrix_w")] and names(last) & gone == {"matrix_x", "matrix_w"}
    return whole and not read_first(rest) & gone
