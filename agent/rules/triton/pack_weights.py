"""Lay a convolution's weight out anew, in a kernel of its own at every call."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from ....core import PythonKernel
from ...analysis.edit import Edit, before, edited, with_parameters
from ...analysis.source import code, expression, fresh, insert_before_definitions
from ...analysis.triton.dots import dots_of, operand_load
from ...analysis.triton.function import argument
from ...analysis.triton.kernel import Launch, TritonFile
from ...analysis.triton.launching import relaunched, stands_alone
from ...analysis.triton.linear import Stride, strides_of
from ...analysis.triton.tensors import is_of_module
from ..rule import Machine, Rewritten, with_source

_COLUMNS, _ROWS = "[None, :]", "[:, None]"
_PACK = """
@triton.jit
def pack_weight(w_ptr, packed_ptr, numel, n_sum, n_out, stride_sum, stride_out, BLOCK: tl.constexpr):
    # From one element per tap side by side to one summed channel after the other.
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    source = offs % n_sum * stride_sum + offs // n_sum % n_out * stride_out + offs // (n_sum * n_out)
    tl.store(packed_ptr + offs, tl.load(w_ptr + source, mask=offs < numel), mask=offs < numel)
"""


@dataclass(frozen=True)
class PackWeights:
    """Copy a weight to (taps, output channels, summed channels), and load the tiles of the product from there.

    Needs an operand of a product that is loaded from a parameter of the module at two indices of the tile and one or
    more of the filter's taps, with the taps side by side in memory: then elements of a tile are as far apart as there
    are taps. The function must use the weight for that load alone.
    """

    name = "pack-weights"
    category = "memory"
    work = "products"
    why = "a tile's elements lie side by side, so a warp loads whole cache lines of them instead of one element of each"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with packed weights, or None where no product loads a weight with taps side by side."""
        file = TritonFile.read(kernel)
        if file is None:
            return None
        edits: dict[cst.CSTNode, Edit] = {}
        pack = fresh("pack_weight", file.taken)
        for launch in file.launched_once():
            operand = _operand(launch) if launch.function.node not in edits and stands_alone(launch) else None
            if operand is not None:
                _rewrite(file, launch, operand, pack, edits)
        if not edits:
            return None
        module = insert_before_definitions(edited(file.module, edits), _PACK.replace("pack_weight", pack))
        return Rewritten(with_source(kernel, module), "packed the weight in a kernel of its own")


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


def _operand(launch: Launch) -> _Operand | None:
    function = launch.function
    for dot in dots_of(function):
        for value, axis in ((dot.left, _COLUMNS), (dot.right, _ROWS)):
            load = operand_load(function, value)
            pointer = argument(load, "pointer", 0) if load is not None else None
            base = function.base(pointer) if pointer is not None else None
            if load is None or pointer is None or base is None or base not in launch.arguments:
                continue
            strides = strides_of(function, pointer)
            if (
                strides is None
                or not is_of_module(launch.host, launch.arguments[base])
                or not function.touches_once(base)
            ):
                continue
            found = _with_taps(load, base, dict(strides), axis)
            if found is not None:
                return found
    return None


def _with_taps(load: cst.Call, weight: str, strides: dict[str, Stride], summed_axis: str) -> _Operand | None:
    """Return the operand if its tile's axes are the outer ones and the taps the inner ones."""
    summed = [one for one in strides if one.endswith(summed_axis)]
    out = [one for one in strides if one.endswith(_ROWS if summed_axis == _COLUMNS else _COLUMNS)]
    taps = {name: stride for name, stride in strides.items() if name not in (*summed, *out)}
    if len(summed) != 1 or len(out) != 1 or not taps:
        return None
    outer = [strides[summed[0]].order, strides[out[0]].order]
    if min(outer) <= max(one.order for one in taps.values()) or outer[0] == outer[1]:
        return None
    terms = [name if stride.text == "1" else f"{name} * {stride.text}" for name, stride in taps.items()]
    return _Operand(load, weight, summed[0], out[0], " + ".join(terms), outer[0] > outer[1])


def _rewrite(file: TritonFile, launch: Launch, operand: _Operand, pack: str, edits: dict[cst.CSTNode, Edit]) -> None:
    function = launch.function
    local = {*function.parameters, *(name for name in function.assignments)}
    n_sum, n_out = fresh("n_sum", local), fresh("n_out", local)
    offset = f"(({operand.taps}) * {n_out} + {operand.out}) * {n_sum} + {operand.summed}"
    pointer = argument(operand.load, "pointer", 0)
    assert pointer is not None
    edits[pointer] = lambda _: expression(f"{operand.weight} + {offset}")
    edits[function.node] = with_parameters([n_sum, n_out], constexpr=False)
    weight, packed = code(launch.arguments[operand.weight]), fresh("packed_weight", file.taken)
    sum_axis, out_axis = (0, 1) if operand.sum_is_outer else (1, 0)
    sizes = f"{weight}.shape[{sum_axis}], {weight}.shape[{out_axis}]"
    host = (
        f"{packed} = torch.empty_like({weight})\n"
        f"{pack}[(triton.cdiv({weight}.numel(), 1024),)]({weight}, {packed}, {weight}.numel(), {sizes}, "
        f"{weight}.stride({sum_axis}), {weight}.stride({out_axis}), BLOCK=1024, num_warps=4)\n"
    )
    given = {operand.weight: packed, n_sum: f"{weight}.shape[{sum_axis}]", n_out: f"{weight}.shape[{out_axis}]"}
    call = relaunched(launch, function.name, given)
    edits[launch.node] = lambda _: call
    edits[launch.statement] = before(host)
