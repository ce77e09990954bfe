"""Lay a convolution's weight out anew, in a kernel of its own at every call."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from ...analysis.applicability import NotApplicable, need, require
from ...analysis.change import Change, Rewritten
from ...analysis.source import code, fresh
from ...analysis.triton import (
    COLUMNS,
    ROWS,
    Launch,
    Stride,
    TritonKernel,
    argument,
    dots_of,
    is_of_module,
    operand_load,
    relaunched,
    strides_of,
)
from ..rule import rule

_PACK = """
@triton.jit
def pack_weight(w_ptr, packed_ptr, numel, n_sum, n_out, stride_sum, stride_out, BLOCK: tl.constexpr):
    # From one element per tap side by side to one summed channel after the other.
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    source = offs % n_sum * stride_sum + offs // n_sum % n_out * stride_out + offs // (n_sum * n_out)
    tl.store(packed_ptr + offs, tl.load(w_ptr + source, mask=offs < numel), mask=offs < numel)
"""


@rule(
    "pack-weights",
    category="memory",
    work="products",
    why="a tile's elements lie side by side, so a warp loads whole cache lines of them instead of one element of each",
    reads=TritonKernel.read,
)
def pack_weights(kernel: TritonKernel, change: Change) -> Rewritten:
    """Copy a weight to (taps, output channels, summed channels), and load the tiles of the product from there.

    Needs an operand of a product that is loaded from a parameter of the module at two indices of the tile and one or
    more of the filter's taps, with the taps side by side in memory: then elements of a tile are as far apart as there
    are taps. The function must use the weight for that load alone.
    """
    pack = change.fresh("pack_weight")
    change.each(kernel.launched_once(), lambda launch, change: _pack(launch, change, pack))
    change.helper(_PACK.replace("pack_weight", pack))
    return change.rewritten("packed the weight in a kernel of its own")


@dataclass(frozen=True)
class _Operand:
    """The load of a weight's tile."""

    load: cst.Call
    weight: str
    """The parameter."""
    summed: str
    out: str
    taps: str
    sum_is_outer: bool


def _operand(launch: Launch) -> _Operand:
    """Return the operand that is a weight with its taps side by side. Raises NotApplicable."""
    function = launch.function
    for dot in dots_of(function):
        for value, axis in ((dot.left, COLUMNS), (dot.right, ROWS)):
            load = operand_load(function, value)
            pointer = argument(load, "pointer", 0) if load is not None else None
            base = function.base(pointer) if pointer is not None else None
            if load is None or pointer is None or base is None or base not in launch.arguments:
                continue
            strides = strides_of(function, pointer)
            is_weight = is_of_module(launch.host, launch.arguments[base]) and function.touches_once(base)
            if strides is not None and is_weight and (found := _with_taps(load, base, dict(strides), axis)) is not None:
                return found
    raise NotApplicable("no operand of a product is a weight of the module with its taps side by side")


def _with_taps(load: cst.Call, weight: str, strides: dict[str, Stride], summed_axis: str) -> _Operand | None:
    """Return the operand if its tile's axes are the outer ones and the taps the inner ones."""
    summed = [item for item in strides if item.endswith(summed_axis)]
    out = [item for item in strides if item.endswith(ROWS if summed_axis == COLUMNS else COLUMNS)]
    taps = {name: stride for name, stride in strides.items() if name not in (*summed, *out)}
    if len(summed) != 1 or len(out) != 1 or not taps:
        return None
    outer = [strides[summed[0]].order, strides[out[0]].order]
    if min(outer) <= max(tap.order for tap in taps.values()) or outer[0] == outer[1]:
        return None
    terms = [name if stride.text == "1" else f"{name} * {stride.text}" for name, stride in taps.items()]
    return _Operand(load, weight, summed[0], out[0], " + ".join(terms), outer[0] > outer[1])


def _pack(launch: Launch, change: Change, pack: str) -> None:
    require(launch.stands_alone, "the launch is no statement of its own")
    operand, function = _operand(launch), launch.function
    local = {*function.parameters, *(name for name in function.assignments)}
    n_sum, n_out = fresh("n_sum", local), fresh("n_out", local)
    offset = f"(({operand.taps}) * {n_out} + {operand.out}) * {n_sum} + {operand.summed}"
    change.put(need(argument(operand.load, "pointer", 0), "no pointer"), f"{operand.weight} + {offset}")
    change.add_parameters(function.node, [n_sum, n_out])
    weight, packed = code(launch.arguments[operand.weight]), change.fresh("packed_weight")
    sum_axis, out_axis = (0, 1) if operand.sum_is_outer else (1, 0)
    sizes = f"{weight}.shape[{sum_axis}], {weight}.shape[{out_axis}]"
    host = (
        f"{packed} = torch.empty_like({weight})\n"
        f"{pack}[(triton.cdiv({weight}.numel(), 1024),)]({weight}, {packed}, {weight}.numel(), {sizes}, "
        f"{weight}.stride({sum_axis}), {weight}.stride({out_axis}), BLOCK=1024, num_warps=4)\n"
    )
    given = {operand.weight: packed, n_sum: f"{weight}.shape[{sum_axis}]", n_out: f"{weight}.shape[{out_axis}]"}
    change.put(launch.node, relaunched(launch, function.name, given))
    change.before(launch.statement, host)
