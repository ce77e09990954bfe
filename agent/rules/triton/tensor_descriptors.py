"""Tiles of matrices loaded by the tensor memory accelerator, through descriptors that the host makes."""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ...analysis.applicability import need, require
from ...analysis.change import Change, Rewritten
from ...analysis.search import find_all
from ...analysis.source import code
from ...analysis.triton import (
    SPLIT_HALVES,
    Launch,
    MatrixLoad,
    TritonKernel,
    assigned,
    dots_of,
    is_argument,
    is_dense,
    matrix_load,
    texts,
)
from ..rule import rule

_IMPORT = "from triton.tools.tensor_descriptor import TensorDescriptor\n"
_STRIDE = re.compile(r"(\w+)\.stride\((\d)\)")


@rule(
    "tensor-descriptors",
    category="memory",
    work="products",
    why="one thread asks for a whole tile, which needs no addresses and arrives as the tensor cores read it",
    reads=TritonKernel.read,
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
    contiguous: dict[cst.FunctionDef, list[str]] = {}

    def describe(launch: Launch, change: Change) -> None:
        described = _described(launch)
        _describe(launch, described, change)
        given = [item.contiguous for item in described if item.contiguous]
        contiguous.setdefault(launch.host, []).extend(given)

    change.each(kernel.launched_once(), describe)
    for host, tensors in contiguous.items():
        if tensors:
            text = "".join(f"{name} = {name}.contiguous()\n" for name in dict.fromkeys(tensors))
            change.at_start(host, text)
    line = m.SimpleStatementLine(body=[m.Import() | m.ImportFrom()])
    change.after([statement for statement in kernel.module.body if m.matches(statement, line)][-1], _IMPORT)
    return change.rewritten("loaded the operands' tiles through tensor descriptors")


@dataclass(frozen=True)
class _Described:
    """A load and the descriptor that takes its place, as text of the host."""

    load: MatrixLoad
    base: str
    shape: str
    stride: str
    """Of the outer axis, in elements."""
    block: str
    places: str
    transposed: bool
    """Whether the load's first axis is the inner one."""
    contiguous: str | None
    """An argument of forward whose strides are given, so that it must be contiguous."""


def _described(launch: Launch) -> list[_Described]:
    """Return the descriptors of all operands of the launch's products. Raises NotApplicable where one has none."""
    function, dots = launch.function, dots_of(launch.function)
    require(dots, "no product")
    require(not all(dot.precision == "ieee" for dot in dots), "the products are on the vector units")
    names = {side.value for dot in dots for side in dot.operands if isinstance(side, cst.Name)}
    require(names, "no operand has a name")
    found = []
    for name in sorted(names):
        value = function.value_of(name)
        load = matrix_load(launch, value) if isinstance(value, cst.Call) and value in function.loads else None
        found.append(_descriptor(launch, need(load, f"the operand {name} is no load of a matrix's tile")))
    return found


def _descriptor(launch: Launch, load: MatrixLoad) -> _Described:
    """Return the descriptor of a load. Raises NotApplicable."""
    given = texts(launch)
    tensor = need(launch.arguments.get(load.pointer), f"the launch does not give {load.pointer}")
    needed = {name for axis in load.axes for name in (axis.size, axis.tile)} - {"1"}
    require(all(name in given or name.isdigit() for name in needed), "a size or tile is not given by the launch")
    strides = [given.get(axis.stride, axis.stride) for axis in load.axes]
    of = {match[1] for text in strides if (match := _STRIDE.fullmatch(text))}
    plain = all(text.isidentifier() or text.isdigit() or _STRIDE.fullmatch(text) for text in strides)
    require(plain and len(of) <= 1, "a stride is no name, number or `tensor.stride(axis)`")
    contiguous = of.pop() if of else None
    if contiguous is not None:
        dense = is_argument(launch.host, contiguous) or is_dense(launch.host, cst.Name(contiguous))
        require(dense, f"{contiguous} may have holes")
        strides = ["1" if text == f"{contiguous}.stride(1)" else text for text in strides]
    require(strides.count("1") == 1, "not one axis of a matrix has a stride of 1")
    base = code(tensor)
    if load.offset is not None:
        require(_is_split(launch, tensor) and load.offset in given, f"where {base} begins is not known to be aligned")
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


def _is_split(launch: Launch, tensor: cst.BaseExpression) -> bool:
    """Return whether a tensor holds both parts of an operand, which begin at whole vectors."""
    name = m.Tuple(elements=[m.Element(m.Name(code(tensor))), m.ZeroOrMore()])
    split = m.Assign(targets=[m.AssignTarget(name)], value=m.Call(func=m.Name(SPLIT_HALVES)))
    found = find_all(launch.host, split)
    return isinstance(tensor, cst.Name) and len(found) == len(assigned(launch.host, tensor.value)) == 1


def _describe(launch: Launch, described: list[_Described], change: Change) -> None:
    flag = change.fresh("DESCRIBED")
    tensors = [item.base.partition("[")[0] for item in described]
    aligned = [f"{one.stride} * {x}.element_size() % 16 == 0" for one, x in zip(described, tensors, strict=True)]
    aligned += [f"{tensor}.data_ptr() % 16 == 0" for tensor in tensors]
    text = f"{flag.lower()} = {' and '.join(dict.fromkeys(aligned))}\n"
    arguments = {}
    for one in described:
        role = one.load.pointer.removesuffix("_ptr") + ("_low" if one.load.offset else "")
        name = change.fresh(f"{role}_desc")
        made = f"TensorDescriptor({one.base}, [{one.shape}], [{one.stride}, 1], [{one.block}])"
        text += f"{name} = {made} if {flag.lower()} else None\n"
        arguments[name] = name
        loaded = f"{name}.load([{one.places}])" + (".T" if one.transposed else "")
        change.put(one.load.call, f"({loaded} if {flag} else {code(one.load.call)})")
    change.add_parameters(launch.function.node, arguments, [flag])
    change.add_arguments(launch.node, {**arguments, flag: flag.lower()})
    change.before(launch.statement, "# Descriptors need rows of a multiple of 16 bytes.\n" + text)
