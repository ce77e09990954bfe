"""Fuse an elementwise kernel into the kernel whose output is its input."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from ...analysis.applicability import need, require
from ...analysis.change import Change, Rewritten
from ...analysis.edit import without_unused
from ...analysis.search import find_all
from ...analysis.source import code, fresh, names, statements
from ...analysis.template import match
from ...analysis.triton import (
    Elementwise,
    Function,
    Neighbours,
    TritonKernel,
    argument,
    assigned_in,
    body_of,
    elementwise_of,
    neighbours_of,
    relaunched,
    texts,
)
from ..rule import rule


@rule(
    "fuse-neighbour",
    category="memory",
    work="both",
    why="the values between the two kernels are neither written to memory nor read from it",
    reads=TritonKernel.read,
)
def fuse_neighbour(kernel: TritonKernel, change: Change) -> Rewritten:
    """Compute what an elementwise function makes of a buffer where the function before it has the values.

    Needs two launches with nothing but allocations between them; a contiguous fp32 buffer that the first writes in
    one store and nothing but the second reads; and a second that reads it once, at program * block + 0, 1, ..., over
    all its elements. Then the offset of the first's store is the second's index. Where the second's result is not in
    the same memory, the buffer goes.
    """
    fused: list[str] = []

    def fuse(pair: Neighbours, change: Change) -> None:
        _fuse(pair, change)
        fused.append(f"fused {pair.consumer.function.name} into {pair.producer.function.name}")

    change.first(neighbours_of(kernel), fuse, "no buffer goes from one launch to the next alone")
    return change.finished(without_unused(change.kernel, change.edited()), fused[0])


def _fuse(pair: Neighbours, change: Change) -> None:
    producer, consumer = pair.producer.function, pair.consumer.function
    store = _only_store(producer, pair.written)
    second = need(elementwise_of(consumer, pair.read), "the second function is not elementwise over the buffer")
    require(_covers(pair, second), "the second's grid does not cover the buffer once")
    in_place = pair.read in second.stores_to
    alone = in_place or not (pair.is_used_later or pair.has_other_name)
    require(alone, "the buffer is used later, or has another name")
    pointer, value, mask = (argument(store, word, at) for word, at in (("pointer", 0), ("value", 1), ("mask", 2)))
    offset = need(_offset(pointer, pair.written), "the first's store is not at `buffer + offset`")
    value, statement = need(value, "the store has no value"), need(producer.statement_of(store), "the store is nested")
    local = {*producer.parameters, *names(producer.node)}
    renamed = {pair.read: pair.written} if in_place else {}
    for name in (
        *consumer.parameters,
        *(item for line in body_of(consumer.node) for item in sorted(assigned_in(line))),
    ):
        renamed.setdefault(name, fresh(name, local))
    under = None if mask is None or code(mask) == "None" else code(mask)
    body = second.inlined(offset, code(value), under, _shape(pointer), renamed)
    body = need(body, "the shape of the second's block is needed, and the store does not say it")
    used = {name for item in body for name in names(item)}
    assigned = {name for item in body for name in assigned_in(item)}
    # Parameters that the function gives another value itself arrive with it.
    needed = [
        parameter
        for parameter in consumer.parameters
        if renamed[parameter] in used - assigned and renamed[parameter] != pair.written
    ]
    given = texts(pair.consumer)
    early = _hoisted(pair, {name for item in needed for name in names(cst.parse_expression(given[item]))})
    plain = not consumer.constexprs & set(needed) and not _gives_constants_by_position(pair)
    require(plain, "a constant would have to move to another place among the parameters")
    params = {renamed[item]: given[item] for item in needed}
    gone = None if in_place else pair.written
    lines = body[0].with_changes(leading_lines=statement.leading_lines)
    change.edit(statement, lambda _: cst.FlattenSentinel([lines, *body[1:]]))
    change.edit(producer.node, lambda node: _signature(node, params, gone))
    call = relaunched(pair.producer, producer.name, params)
    if gone is not None:
        call = _without(call, pair, gone)
    launch = statements("pass\n")[0].with_changes(body=[cst.Expr(call)])
    change.edit(pair.producer.statement, lambda _: cst.FlattenSentinel([*early, launch]))
    for line in [pair.consumer.statement, consumer.node, *early, *(() if in_place else (pair.buffer, *pair.dels))]:
        change.remove(line)


def _only_store(function: Function, parameter: str) -> cst.Call:
    """Return the one store to a parameter, outside of loops and branches. Raises NotApplicable."""
    found = [store for store in function.stores if parameter in names(store.args[0].value)]
    alone = len(found) == 1 == len(find_all(function.node.body, m.Name(parameter)))
    require(alone, "the first function does not use the buffer in one store alone")
    require(function.statement_of(found[0]) in body_of(function.node), "the store is in a loop or a branch")
    return found[0]


def _covers(pair: Neighbours, second: Elementwise) -> bool:
    """Return whether the second's grid has one element for each of the buffer's."""
    grid, block = pair.consumer.grid, pair.consumer.arguments.get(second.block)
    if grid is None or len(grid) != 1 or block is None:
        return False
    return match(f"triton.cdiv({pair.numel}, q_step)", grid[0], {"step": code(block)}) is not None


def _offset(pointer: cst.BaseExpression | None, base: str) -> str | None:
    """Return what is added to the base, in `base + (offset)`."""
    if not isinstance(pointer, cst.BinaryOperation) or not m.matches(pointer, m.BinaryOperation(m.Name(base), m.Add())):
        return None
    return code(pointer.right)


def _shape(pointer: cst.BaseExpression | None) -> str | None:
    """Return the shape that a pointer's offset is broadcast to, if it says so."""
    calls = find_all(pointer, m.Call(func=m.Attribute(m.Name("tl"), m.Name("broadcast_to")))) if pointer else []
    return code(cst.ensure_type(calls[0], cst.Call).args[1].value) if len(calls) == 1 else None


def _hoisted(pair: Neighbours, wanted: set[str]) -> list[cst.BaseStatement]:
    """Return the allocations between the launches that the fused one needs. Raises NotApplicable for anything else."""
    assigned = {name: item for item in pair.between for name in assigned_in(item)}
    early: list[cst.BaseStatement] = [assigned[name] for name in assigned if name in wanted]
    require(all(find_all(item, m.Call()) for item in early), "the second launch needs a name from between both")
    return early


def _gives_constants_by_position(pair: Neighbours) -> bool:
    plain = sum(arg.keyword is None for arg in pair.producer.node.args)
    return bool(pair.producer.function.constexprs & {*pair.producer.function.parameters[:plain]})


def _signature(node: cst.CSTNode, params: dict[str, str], gone: str | None) -> cst.FunctionDef:
    """Return the function with more plain parameters, before its constants, and without one."""
    function = cst.ensure_type(node, cst.FunctionDef)
    kept = [parameter for parameter in function.params.params if parameter.name.value != gone]
    first = next((i for i, one in enumerate(kept) if one.annotation is not None), len(kept))
    new = [cst.Param(cst.Name(name)) for name in params]
    all_of_them = [item.with_changes(comma=cst.MaybeSentinel.DEFAULT) for item in (*kept[:first], *new, *kept[first:])]
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
