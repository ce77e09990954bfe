"""Fuse an elementwise kernel into the kernel whose output is its input."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ....core import PythonKernel
from ...analysis.edit import Edit, edited
from ...analysis.search import find_all
from ...analysis.source import code, fresh, names, statements
from ...analysis.triton.elementwise import Elementwise, elementwise_of
from ...analysis.triton.function import Function, argument
from ...analysis.triton.kernel import TritonFile
from ...analysis.triton.launching import relaunched, texts
from ...analysis.triton.leftovers import without_unused
from ...analysis.triton.neighbours import Neighbours, neighbours_of
from ...analysis.triton.passes import body_of
from ...analysis.triton.values import assigned_in
from ..rule import Machine, Rewritten, with_source

_CDIV = m.Call(func=m.Attribute(m.Name("triton"), m.Name("cdiv")), args=[m.Arg(m.Integer()), m.Arg()])


@dataclass(frozen=True)
class FuseNeighbour:
    """Compute what an elementwise function makes of a buffer where the function before it has the values.

    Needs two launches with nothing but allocations between them; a contiguous fp32 buffer that the first writes in
    one store and nothing but the second reads; and a second that reads it once, at program * block + 0, 1, ..., over
    all its elements. Then the offset of the first's store is the second's index. Where the second's result is not in
    the same memory, the buffer goes.
    """

    name = "fuse-neighbour"
    category = "memory"
    work = "both"
    why = "the values between the two kernels are neither written to memory nor read from it"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with the first such pair fused, or None where there is none."""
        file = TritonFile.read(kernel)
        if file is None:
            return None
        for pair in neighbours_of(file):
            edits = _edits(file, pair)
            if edits:
                module = without_unused(kernel, edited(file.module, edits))
                did = f"fused {pair.consumer.function.name} into {pair.producer.function.name}"
                return Rewritten(with_source(kernel, module), did)
        return None


def _edits(file: TritonFile, pair: Neighbours) -> dict[cst.CSTNode, Edit]:
    producer, consumer = pair.producer.function, pair.consumer.function
    store = _only_store(producer, pair.written)
    second = elementwise_of(consumer, pair.read)
    if store is None or second is None or not _covers(pair, second):
        return {}
    in_place = pair.read in second.stores_to
    if not in_place and (pair.is_used_later or pair.has_other_name):
        return {}
    pointer, value, mask = (argument(store, word, at) for word, at in (("pointer", 0), ("value", 1), ("mask", 2)))
    offset = _offset(pointer, pair.written)
    if offset is None or value is None or pair.producer.function.statement_of(store) is None:
        return {}
    local = {*producer.parameters, *names(producer.node)}
    renamed = {pair.read: pair.written} if in_place else {}
    for name in (*consumer.parameters, *(one for line in body_of(consumer.node) for one in sorted(assigned_in(line)))):
        renamed.setdefault(name, fresh(name, local))
    under = None if mask is None or code(mask) == "None" else code(mask)
    body = second.inlined(offset, code(value), under, _shape(pointer), renamed)
    if body is None:
        return {}
    used = {name for one in body for name in names(one)}
    assigned = {name for one in body for name in assigned_in(one)}
    # Parameters that the function gives another value itself arrive with it.
    needed = [one for one in consumer.parameters if renamed[one] in used - assigned and renamed[one] != pair.written]
    given = texts(pair.consumer)
    early = _hoisted(file, pair, {name for one in needed for name in names(cst.parse_expression(given[one]))})
    if early is None or consumer.constexprs & set(needed) or _gives_constants_by_position(pair):
        return {}
    edits: dict[cst.CSTNode, Edit] = {}
    params = {renamed[one]: given[one] for one in needed}
    gone = None if in_place else pair.written
    statement = producer.statement_of(store)
    assert statement is not None
    lines = body[0].with_changes(leading_lines=statement.leading_lines)
    edits[statement] = lambda _: cst.FlattenSentinel([lines, *body[1:]])
    edits[producer.node] = lambda node: _signature(node, params, gone)
    call = relaunched(pair.producer, producer.name, params)
    if gone is not None:
        call = _without(call, pair, gone)
    launch = statements("pass\n")[0].with_changes(body=[cst.Expr(call)])
    edits[pair.producer.statement] = lambda _: cst.FlattenSentinel([*early, launch])
    for line in [pair.consumer.statement, consumer.node, *early, *(() if in_place else (pair.buffer, *pair.dels))]:
        edits[line] = lambda _: cst.RemoveFromParent()
    return edits


def _only_store(function: Function, parameter: str) -> cst.Call | None:
    """Return the one store to a parameter that nothing else in the function uses, outside of loops and branches."""
    found = [one for one in function.stores if parameter in names(one.args[0].value)]
    if len(found) != 1 or _uses(function, parameter) != 1:
        return None
    statement = function.statement_of(found[0])
    return found[0] if statement in body_of(function.node) else None


def _uses(function: Function, parameter: str) -> int:
    return len(find_all(function.node.body, m.Name(parameter)))


def _covers(pair: Neighbours, second: Elementwise) -> bool:
    """Return whether the second's grid has one element for each of the buffer's."""
    grid, block = pair.consumer.grid, pair.consumer.arguments.get(second.block)
    if grid is None or len(grid) != 1 or block is None or not m.matches(grid[0], _CDIV):
        return False
    size, step = (arg.value for arg in cst.ensure_type(grid[0], cst.Call).args)
    return cst.ensure_type(size, cst.Integer).evaluated_value == pair.numel and code(step) == code(block)


def _offset(pointer: cst.BaseExpression | None, base: str) -> str | None:
    """Return what is added to the base, in `base + (offset)`."""
    if not isinstance(pointer, cst.BinaryOperation) or not m.matches(pointer, m.BinaryOperation(m.Name(base), m.Add())):
        return None
    return code(pointer.right)


def _shape(pointer: cst.BaseExpression | None) -> str | None:
    """Return the shape that a pointer's offset is broadcast to, if it says so."""
    calls = find_all(pointer, m.Call(func=m.Attribute(m.Name("tl"), m.Name("broadcast_to")))) if pointer else []
    return code(cst.ensure_type(calls[0], cst.Call).args[1].value) if len(calls) == 1 else None


def _hoisted(file: TritonFile, pair: Neighbours, wanted: set[str]) -> list[cst.BaseStatement] | None:
    """Return the allocations between the launches that the fused one needs; None where it needs something else."""
    assigned = {name: one for one in pair.between for name in assigned_in(one)}
    early = [assigned[name] for name in assigned if name in wanted]
    return list(early) if all(find_all(one, m.Call()) for one in early) else None


def _gives_constants_by_position(pair: Neighbours) -> bool:
    plain = sum(arg.keyword is None for arg in pair.producer.node.args)
    return bool(pair.producer.function.constexprs & {*pair.producer.function.parameters[:plain]})


def _signature(node: cst.CSTNode, params: dict[str, str], gone: str | None) -> cst.FunctionDef:
    """Return the function with more plain parameters, before its constants, and without one."""
    function = cst.ensure_type(node, cst.FunctionDef)
    kept = [one for one in function.params.params if one.name.value != gone]
    first = next((i for i, one in enumerate(kept) if one.annotation is not None), len(kept))
    new = [cst.Param(cst.Name(name)) for name in params]
    all_of_them = [one.with_changes(comma=cst.MaybeSentinel.DEFAULT) for one in (*kept[:first], *new, *kept[first:])]
    return function.with_changes(params=function.params.with_changes(params=all_of_them))


def _without(call: cst.Call, pair: Neighbours, gone: str) -> cst.Call:
    """Return a launch without the argument for a parameter; those after it may be positional."""
    position = pair.producer.function.parameters.index(gone)
    return call.with_changes(
        args=[
            arg
            for at, arg in enumerate(call.args)
            if not (arg.keyword.value == gone if arg.keyword is not None else at == position)
        ]
    )
