"""Tiles of matrices loaded by the tensor memory accelerator, through descriptors that the host makes."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

import libcst as cst

from ...analysis.source import code
from ...analysis.triton import (
    Launch,
    MatrixLoad,
    TritonKernel,
    dots_of,
    holds_halves,
    is_argument,
    is_dense,
    make_contiguous,
    matrix_load,
)
from ..rule import Change, Rewritten, need, require, rule

_IMPORT = "from triton.tools.tensor_descriptor import TensorDescriptor\n"
_STRIDE = re.compile(r"(\w+)\.stride\((\d)\)")


@rule("memory", "products", TritonKernel.read).because(
    "one thread asks for a whole tile, which needs no addresses and arrives as the tensor cores read it"
)
def tensor_descriptors(kernel: TritonKernel, change: Change) -> Rewritten:
    """Loads of a product's operands become loads through tensor descriptors, where the strides allow it.

    Needs a function that is launched at one place, whose operands are tiles of matrices with `rows < size` and
    `columns < size` as masks, zeros outside, and one axis with a stride of 1. Descriptors need rows of a multiple of
    16 bytes and an aligned start: the host looks, and without it the function loads as before. Arguments of forward
    are made contiguous first, where the launch gives their strides. Products on the vector units are left alone: their
    operands are in registers, which then spill.
    """
    change.require_free("TensorDescriptor")
    make_contiguous(change, itertools.chain(*change.each(kernel.launched_once(), _describe)))
    change.add_import(_IMPORT)
    return change.rewritten("loaded the operands' tiles through tensor descriptors")


@dataclass(frozen=True)
class _Described:
    load: MatrixLoad
    base: str
    shape: str
    stride: str
    """Stride of the outer axis, in elements."""
    block: str
    places: str
    transposed: bool
    """Whether the load's first axis is the inner one."""
    contiguous: str | None
    """An argument of forward whose strides are given, so that it must be contiguous."""


def _described(launch: Launch) -> list[_Described]:
    dots = dots_of(launch.function)
    require(dots, "no product")
    require(not all(dot.precision == "ieee" for dot in dots), "the products are on the vector units")
    names = {side.value for dot in dots for side in dot.operands if isinstance(side, cst.Name)}
    require(names, "no operand has a name")
    return [_descriptor(launch, matrix_load(launch, cst.Name(name))) for name in sorted(names)]


def _descriptor(launch: Launch, load: MatrixLoad) -> _Described:
    given = launch.texts
    tensor = need(launch.arguments.get(load.pointer), f"the launch does not give {load.pointer}")
    needed = {name for axis in load.axes for name in (axis.size, axis.tile)} - {"1"}
    require(all(name in given or name.isdigit() for name in needed), "a size or tile is not given by the launch")
    strides = [given.get(axis.stride, axis.stride) for axis in load.axes]
    of = {match[1] for text in strides if (match := _STRIDE.fullmatch(text))}
    plain = all(text.isidentifier() or text.isdigit() or _STRIDE.fullmatch(text) for text in strides)
    require(plain and len(of) <= 1, "a stride is not a name, number or `tensor.stride(axis)`")
    contiguous = of.pop() if of else None
    if contiguous is not None:
        dense = is_argument(launch.host, contiguous) or is_dense(launch.host, cst.Name(contiguous))
        require(dense, f"{contiguous} may have holes")
        strides = ["1" if text == f"{contiguous}.stride(1)" else text for text in strides]
    require(strides.count("1") == 1, "not one axis of a matrix has a stride of 1")
    base = code(tensor)
    if load.offset is not None:
        aligned = holds_halves(launch.host, tensor) and load.offset in given
        require(aligned, f"where {base} begins is not known to be aligned")
        base = f"{base}[{given[load.offset]}:]"
    inner = strides.index("1")
    outer, last = load.axes[1 - inner], load.axes[inner]
    pair = (outer, last)
    return _Described(
        load,
        base,
        ", ".join(given.get(axis.size, axis.size) for axis in pair),
        strides[1 - inner],
        ", ".join(given[axis.tile] for axis in pair),
        ", ".join(axis.place for axis in pair),
        inner == 0,
        contiguous if contiguous and is_argument(launch.host, contiguous) else None,
    )


def _describe(launch: Launch, change: Change) -> list[tuple[cst.FunctionDef, str]]:
    """Change one launch; return which arguments of which method must be contiguous."""
    described = _described(launch)
    flag = change.fresh("DESCRIBED")
    tensors = [item.base.partition("[")[0] for item in described]
    aligned = [
        f"{descriptor.stride} * {x}.element_size() % 16 == 0" for descriptor, x in zip(described, tensors, strict=True)
    ]
    aligned += [f"{tensor}.data_ptr() % 16 == 0" for tensor in tensors]
    text = f"{flag.lower()} = {' and '.join(dict.fromkeys(aligned))}\n"
    arguments = {}
    for item in described:
        role = item.load.pointer.removesuffix("_ptr") + ("_low" if item.load.offset else "")
        name = change.fresh(f"{role}_desc")
        made = f"TensorDescriptor({item.base}, [{item.shape}], [{item.stride}, 1], [{item.block}])"
        text += f"{name} = {made} if {flag.lower()} else None\n"
        arguments[name] = name
        loaded = f"{name}.load([{item.places}])" + (".T" if item.transposed else "")
        change.put(item.load.call, f"({loaded} if {flag} else {code(item.load.call)})")
    change.add_parameters(launch.function.node, arguments, [flag])
    change.add_arguments(launch.node, {**arguments, flag: flag.lower()})
    change.before(launch.statement, "# Descriptors need rows of a multiple of 16 bytes.\n" + text)
    return [(launch.host, item.contiguous) for item in described if item.contiguous]
