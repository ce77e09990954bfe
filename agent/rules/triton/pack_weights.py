"""Pack a convolution's weight in a separate kernel at every call."""

from __future__ import annotations

from dataclasses import dataclass

from ...analysis.source import code, fresh
from ...analysis.triton import (
    COLUMNS,
    ROWS,
    Launch,
    OperandLoad,
    StridedOperand,
    TritonKernel,
    is_of_module,
    strided_operand,
)
from ..rule import Change, Rewritten, require, rule

_PACK = """
@triton.jit
def pack_weight(w_ptr, packed_ptr, numel, n_sum, n_out, stride_sum, stride_out, BLOCK: tl.constexpr):
    # From one element per tap side by side to one summed channel after the other.
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    source = offs % n_sum * stride_sum + offs // n_sum % n_out * stride_out + offs // (n_sum * n_out)
    tl.store(packed_ptr + offs, tl.load(w_ptr + source, mask=offs < numel), mask=offs < numel)
"""


@rule("memory", "products", TritonKernel.read).because(
    "a tile's elements lie side by side, so a warp loads whole cache lines of them instead of one element of each"
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
class _Weight:
    load: OperandLoad
    summed: str
    out: str
    taps: str
    sum_is_outer: bool


def _weight(launch: Launch, found: StridedOperand) -> _Weight:
    """Return the operand, if its tile's axes are the outer ones and the taps the inner ones.

    Raises NotApplicableError.
    """
    strides, text = found.strides, code(found.load.tensor)
    require(is_of_module(launch.host, found.load.tensor), f"{text} is not a weight of the module")
    summed = [item for item in strides if item.endswith(found.summed)]
    out = [item for item in strides if item.endswith(ROWS if found.summed == COLUMNS else COLUMNS)]
    taps = {name: stride for name, stride in strides.items() if name not in (*summed, *out)}
    require(len(summed) == len(out) == 1 and taps, f"{text} has no taps beside both axes of a tile")
    outer = [strides[summed[0]].order, strides[out[0]].order]
    inner = min(outer) > max(tap.order for tap in taps.values()) and outer[0] != outer[1]
    require(inner, f"the taps of {text} do not lie side by side")
    terms = [name if stride.text == "1" else f"{name} * {stride.text}" for name, stride in taps.items()]
    return _Weight(found.load, summed[0], out[0], " + ".join(terms), outer[0] > outer[1])


def _pack(launch: Launch, change: Change, pack: str) -> None:
    launch.require_alone()
    operand, function = strided_operand(launch, lambda found: _weight(launch, found)), launch.function
    local = {*function.parameters, *function.assignments}
    n_sum, n_out = fresh("n_sum", local), fresh("n_out", local)
    offset = f"(({operand.taps}) * {n_out} + {operand.out}) * {n_sum} + {operand.summed}"
    change.put(operand.load.pointer, f"{operand.load.base} + {offset}")
    change.add_parameters(function.node, [n_sum, n_out])
    weight, packed = launch.texts[operand.load.base], change.fresh("packed_weight")
    sum_axis, out_axis = (0, 1) if operand.sum_is_outer else (1, 0)
    sizes = f"{weight}.shape[{sum_axis}], {weight}.shape[{out_axis}]"
    host = (
        f"{packed} = torch.empty_like({weight})\n"
        f"{pack}[(triton.cdiv({weight}.numel(), 1024),)]({weight}, {packed}, {weight}.numel(), {sizes}, "
        f"{weight}.stride({sum_axis}), {weight}.stride({out_axis}), BLOCK=1024, num_warps=4)\n"
    )
    given = {operand.load.base: packed, n_sum: f"{weight}.shape[{sum_axis}]", n_out: f"{weight}.shape[{out_axis}]"}
    change.put(launch.node, launch.relaunched(function.name, given))
    change.before(launch.statement, host)
