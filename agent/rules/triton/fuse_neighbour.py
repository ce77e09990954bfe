"""Fuse an elementwise kernel into the kernel whose output is its input."""

from __future__ import annotations

import libcst as cst

from ...analysis.source import code, fresh, names
from ...analysis.template import matches
from ...analysis.tree import assigned_in, body_of, calls_in, find_all, named
from ...analysis.triton import Function, Neighbours, TritonKernel, argument, elementwise_of, neighbours_of
from ..rule import Change, Rewritten, need, require, rule


@rule("memory", "both", TritonKernel.read).because(
    "the values between the two kernels are neither written to memory nor read from it"
)
def fuse_neighbour(kernel: TritonKernel, change: Change) -> Rewritten:
    """Compute what an elementwise function makes of a buffer where the function before it has the values.

    Needs two launches with nothing but allocations between them; a contiguous fp32 buffer that the first writes in
    one store and nothing but the second reads; and a second that reads it once, at program * block + 0, 1, ..., over
    all its elements. Then the offset of the first's store is the second's index. Where the second's result is not in
    the same memory, the buffer goes.
    """
    did = change.first(neighbours_of(kernel), _fuse, "no buffer goes from one launch to the next alone")
    return change.settled(did)


def _fuse(pair: Neighbours, change: Change) -> str:
    """Fuse two launches; return what was done."""
    producer, consumer = pair.producer.function, pair.consumer.function
    store = _only_store(producer, pair.written)
    second = elementwise_of(consumer, pair.read)
    (grid, *more), block = pair.consumer.grid or (None,), pair.consumer.texts.get(second.block, "None")
    covers = not more and matches(grid, "triton.cdiv(q_size, q_block)", size=str(pair.numel), block=block)
    require(covers, "the second's grid does not cover the buffer once")
    in_place = pair.read in second.stores_to
    alone = in_place or not (pair.is_used_later or pair.has_other_name)
    require(alone, "the buffer is used later, or has another name")
    pointer, value, mask = (argument(store, word, at) for word, at in (("pointer", 0), ("value", 1), ("mask", 2)))
    offset = need(_offset(pointer, pair.written), "the first's store is not at `buffer + offset`")
    value, statement = need(value, "the store has no value"), need(producer.statement_of(store), "the store is nested")
    local = {*producer.parameters, *names(producer.node)}
    renamed = {pair.read: pair.written} if in_place else {}
    local_names = [item for line in body_of(consumer.node) for item in sorted(assigned_in(line))]
    for name in (*consumer.parameters, *local_names):
        renamed.setdefault(name, fresh(name, local))
    under = None if mask is None or code(mask) == "None" else code(mask)
    broadcasts = calls_in(pointer, "tl.broadcast_to") if pointer else []
    shape = code(broadcasts[0].args[1].value) if len(broadcasts) == 1 else None  # that of the first's block
    body = second.inlined(offset, code(value), under, shape, renamed)
    body = need(body, "the shape of the second's block is needed, and the store does not say it")
    used, assigned = names(*body), {name for item in body for name in assigned_in(item)}
    # Parameters that the function gives another value itself arrive with it.
    arriving = used - assigned - {pair.written}
    needed = [parameter for parameter in consumer.parameters if renamed[parameter] in arriving]
    given = pair.consumer.texts
    wanted = names(*(pair.consumer.arguments[item] for item in needed))
    between = {name: item for item in pair.between for name in assigned_in(item)}
    early = [item for name, item in between.items() if name in wanted]
    require(all(find_all(item, cst.Call) for item in early), "the second launch needs a name from between both")
    by_position = producer.parameters[: sum(arg.keyword is None for arg in pair.producer.node.args)]
    plain = not consumer.constexprs & set(needed) and not producer.constexprs & {*by_position}
    require(plain, "a constant would have to move to another place among the parameters")
    params = {renamed[item]: given[item] for item in needed}
    gone = None if in_place else pair.written
    change.put_statements(statement, [body[0].with_changes(leading_lines=statement.leading_lines), *body[1:]])
    change.edit(producer.node, lambda node: _signature(node, params, gone))
    call = pair.producer.relaunched(producer.name, params)
    if gone is not None:
        call = _without(call, pair, gone)
    change.put_statements(pair.producer.statement, [*early, cst.SimpleStatementLine([cst.Expr(call)])])
    change.remove(pair.consumer.statement, consumer.node, *early, *(() if in_place else (pair.buffer, *pair.dels)))
    return f"fused {consumer.name} into {producer.name}"


def _only_store(function: Function, parameter: str) -> cst.Call:
    """Return the one store to a parameter, outside of loops and branches. Raises NotApplicableError."""
    found = [store for store in function.stores if parameter in names(store.args[0].value)]
    alone = len(found) == 1 == len(named(function.node.body, parameter))
    require(alone, "the first function does not use the buffer in one store alone")
    require(function.statement_of(found[0]) in body_of(function.node), "the store is in a loop or a branch")
    return found[0]


def _offset(pointer: cst.BaseExpression | None, base: str) -> str | None:
    match pointer:
        case cst.BinaryOperation(left=cst.Name(value=name), operator=cst.Add(), right=offset) if name == base:
            return code(offset)
    return None


def _signature(function: cst.FunctionDef, params: dict[str, str], gone: str | None) -> cst.FunctionDef:
    """Return the function with more plain parameters, before its constants, and without one."""
    kept = [parameter for parameter in function.params.params if parameter.name.value != gone]
    first = next((i for i, parameter in enumerate(kept) if parameter.annotation is not None), len(kept))
    new = [cst.Param(cst.Name(name)) for name in params]
    all_of_them = [item.with_changes(comma=cst.MaybeSentinel.DEFAULT) for item in (*kept[:first], *new, *kept[first:])]
    return function.with_changes(params=function.params.with_changes(params=all_of_them))


def _without(call: cst.Call, pair: Neighbours, gone: str) -> cst.Call:
    position = pair.producer.function.parameters.index(gone)
    is_gone = [arg.keyword.value == gone if arg.keyword else at == position for at, arg in enumerate(call.args)]
    return call.with_changes(args=[arg for arg, out in zip(call.args, is_gone, strict=True) if not out])
