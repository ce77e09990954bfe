"""Tiles of matrices loaded by the tensor memory accelerator, through descriptors that the host makes."""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ....core import PythonKernel
from ...analysis.edit import Edit, after, before, both, edited, put, with_arguments, with_parameters
from ...analysis.search import find_all
from ...analysis.source import code, fresh
from ...analysis.triton.dots import dots_of
from ...analysis.triton.kernel import Launch, TritonFile
from ...analysis.triton.matrices import MatrixLoad, matrix_load
from ...analysis.triton.tensors import assigned, is_argument, is_dense
from ..rule import Machine, Rewritten, with_source
from .split_operands import SPLIT_HALVES

_IMPORT = "from triton.tools.tensor_descriptor import TensorDescriptor\n"
_STRIDE = re.compile(r"(\w+)\.stride\((\d)\)")


@dataclass(frozen=True)
class TensorDescriptors:
    """Loads of a product's operands become loads through tensor descriptors, where the strides allow it.

    Needs a function that is launched at one place, whose operands are tiles of matrices with `rows < size` and
    `columns < size` as masks, zeros outside, and one axis with a stride of 1. Descriptors need rows of a multiple of
    16 bytes and an aligned start: the host looks, and without it the function loads as before. Arguments of forward
    are made contiguous first, where the launch gives their strides. Products on the vector units are left alone: their
    operands are in registers, which then spill.
    """

    name = "tensor-descriptors"
    category = "memory"
    work = "products"
    why = "one thread asks for a whole tile, which needs no addresses and arrives as the tensor cores read it"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with descriptors, or None where a product's operands are no tiles of matrices."""
        file = TritonFile.read(kernel)
        if file is None or "TensorDescriptor" in file.taken:
            return None
        edits: dict[cst.CSTNode, Edit] = {}
        for launch in file.launched_once():
            described = _described(launch)
            if described:
                _rewrite(file, launch, described, edits)
        if not edits:
            return None
        line = m.SimpleStatementLine(body=[m.Import() | m.ImportFrom()])
        imports = [statement for statement in file.module.body if m.matches(statement, line)]
        edits[imports[-1]] = after(_IMPORT)
        return Rewritten(
            with_source(kernel, edited(file.module, edits)), "loaded the operands' tiles through tensor descriptors"
        )


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
    """Return the loads of all operands of the launch's products; none where one has no descriptor."""
    function = launch.function
    if all(dot.precision == "ieee" for dot in dots_of(function)):
        return []
    names = {side.value for dot in dots_of(function) for side in dot.operands if isinstance(side, cst.Name)}
    values = [function.value_of(name) for name in sorted(names)]
    loads = [matrix_load(launch, one) for one in values if isinstance(one, cst.Call) and one in function.loads]
    found = [described for one in loads if one is not None and (described := _descriptor(launch, one)) is not None]
    return found if len(found) == len(names) else []


def _descriptor(launch: Launch, load: MatrixLoad) -> _Described | None:
    texts = {name: code(value) for name, value in launch.arguments.items()}
    tensor = launch.arguments.get(load.pointer)
    needed = {name for axis in load.axes for name in (axis.size, axis.tile)} - {"1"}
    if tensor is None or not all(name in texts or name.isdigit() for name in needed):
        return None
    strides = [texts.get(axis.stride, axis.stride) for axis in load.axes]
    given = {match[1] for text in strides if (match := _STRIDE.fullmatch(text))}
    if not all(text.isidentifier() or text.isdigit() or _STRIDE.fullmatch(text) for text in strides) or len(given) > 1:
        return None
    contiguous = given.pop() if given else None
    if contiguous is not None:
        if not (is_argument(launch.host, contiguous) or is_dense(launch.host, cst.Name(contiguous))):
            return None
        strides = ["1" if text == f"{contiguous}.stride(1)" else text for text in strides]
    if strides.count("1") != 1:
        return None
    base = code(tensor)
    if load.offset is not None:
        if not _is_split(launch, tensor) or load.offset not in texts:
            return None
        base = f"{base}[{texts[load.offset]}:]"
    inner = strides.index("1")
    outer, last = load.axes[1 - inner], load.axes[inner]
    pair = (outer, last)
    return _Described(
        load,
        base,
        ", ".join(texts.get(axis.size, axis.size) for axis in pair),
        strides[1 - inner],
        ", ".join(texts[axis.tile] for axis in pair),
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


def _rewrite(file: TritonFile, launch: Launch, described: list[_Described], edits: dict[cst.CSTNode, Edit]) -> None:
    """Add the edits of one launch and of its function."""
    flag = fresh("DESCRIBED", file.taken)
    aligned = [f"{one.stride} * {one.base.partition('[')[0]}.element_size() % 16 == 0" for one in described]
    aligned += [f"{one.base.partition('[')[0]}.data_ptr() % 16 == 0" for one in described]
    text = f"{flag.lower()} = {' and '.join(dict.fromkeys(aligned))}\n"
    arguments = {}
    for one in described:
        role = one.load.pointer.removesuffix("_ptr") + ("_low" if one.load.offset else "")
        name = fresh(f"{role}_desc", file.taken)
        made = f"TensorDescriptor({one.base}, [{one.shape}], [{one.stride}, 1], [{one.block}])"
        text += f"{name} = {made} if {flag.lower()} else None\n"
        arguments[name] = name
        loaded = f"{name}.load([{one.places}])" + (".T" if one.transposed else "")
        edits[one.load.call] = put(f"({loaded} if {flag} else {code(one.load.call)})")
    edits[launch.function.node] = both(with_parameters(list(arguments), constexpr=False), with_parameters([flag]))
    edits[launch.node] = with_arguments({**arguments, flag: flag.lower()})
    edits[launch.statement] = before("# Descriptors need rows of a multiple of 16 bytes.\n" + text)
    names = dict.fromkeys(one.contiguous for one in described if one.contiguous)
    if names:
        edits[launch.host.body.body[0]] = before("".join(f"{name} = {name}.contiguous()\n" for name in names))
