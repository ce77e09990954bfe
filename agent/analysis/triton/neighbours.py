"""Finds a launch whose output buffer nothing reads but the launch that follows it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ..search import find_all
from ..source import code, names
from .kernel import Launch, TritonKernel

_EMPTY = m.Call(func=m.Attribute(m.Name("torch"), m.Name("empty_strided")))


@dataclass(frozen=True)
class Neighbours:
    """Two launches with nothing but allocations, other names and `del` between them."""

    producer: Launch
    consumer: Launch
    buffer: cst.SimpleStatementLine
    """`name = torch.empty_strided(shape, strides, dtype=torch.float32, ...)`: contiguous, whole numbers."""
    numel: int
    written: str
    """The producer's parameter that gets the buffer."""
    read: str
    """The consumer's parameter that gets it."""
    between: Sequence[cst.SimpleStatementLine]
    """`name = torch.empty_strided(...)`, `name = other_name` and `del name` between the launches."""
    dels: Sequence[cst.SimpleStatementLine]
    """Every `del` of the buffer."""
    is_used_later: bool
    has_other_name: bool


def neighbours_of(kernel: TritonKernel) -> Iterator[Neighbours]:
    """Yield pairs of launches, in the order of the text."""
    once = [launch for launch in kernel.launched_once() if launch.stands_alone]
    for block in find_all(kernel.module, m.IndentedBlock()):
        body = [item for item in cst.ensure_type(block, cst.IndentedBlock).body if isinstance(item, cst.BaseStatement)]
        here = [(position, launch) for position, one in enumerate(body) for launch in once if launch.statement is one]
        for (first, producer), (second, consumer) in itertools.pairwise(here):
            between = [item for item in body[first + 1 : second] if isinstance(item, cst.SimpleStatementLine)]
            if len(between) == second - first - 1 and all(_is_harmless(item) for item in between):
                yield from _pairs(body, first, second, producer, consumer, between)


def _pairs(
    body: Sequence[cst.BaseStatement],
    first: int,
    second: int,
    producer: Launch,
    consumer: Launch,
    between: Sequence[cst.SimpleStatementLine],
) -> Iterator[Neighbours]:
    assigned = [item.body[0] for item in between]
    other_names = {
        code(item.targets[0].target): code(item.value)
        for item in assigned
        if isinstance(item, cst.Assign) and isinstance(item.value, cst.Name)
    }
    for statement in body[:first]:
        numel = _contiguous(statement)
        if numel is None or not isinstance(statement, cst.SimpleStatementLine):
            continue
        buffer = _assigned(statement)
        called = {buffer, *(name for name, value in other_names.items() if value == buffer)}
        uses = [item for item in body if item is not statement and names(item) & called]
        left = [use for use in uses if use not in (producer.statement, consumer.statement, *between)]
        written = [name for name, value in producer.arguments.items() if code(value) in called]
        read = [name for name, value in consumer.arguments.items() if code(value) in called]
        if len(written) != 1 or len(read) != 1:
            continue
        dels = [use for use in uses if m.matches(use, m.SimpleStatementLine([m.Del()]))]
        later = [item for item in left if item not in dels]
        if any(body.index(item) < second for item in later):
            continue
        yield Neighbours(
            producer,
            consumer,
            statement,
            numel,
            written[0],
            read[0],
            between,
            [item for item in dels if isinstance(item, cst.SimpleStatementLine)],
            bool(later),
            len(called) > 1,
        )


def _is_harmless(statement: cst.SimpleStatementLine) -> bool:
    allocation = m.Assign(targets=[m.AssignTarget(m.Name())], value=_EMPTY | m.Name())
    return len(statement.body) == 1 and m.matches(statement.body[0], allocation | m.Del(target=m.Name()))


def _assigned(statement: cst.SimpleStatementLine) -> str:
    assign = cst.ensure_type(statement.body[0], cst.Assign)
    return code(assign.targets[0].target)


def _contiguous(statement: cst.BaseStatement) -> int | None:
    """Return the number of elements of a contiguous fp32 buffer that a statement allocates; None for anything else."""
    if not m.matches(statement, m.SimpleStatementLine([m.Assign(targets=[m.AssignTarget(m.Name())], value=_EMPTY)])):
        return None
    assign = cst.ensure_type(cst.ensure_type(statement, cst.SimpleStatementLine).body[0], cst.Assign)
    call = cst.ensure_type(assign.value, cst.Call)
    if len(call.args) < 2 or not any(code(arg.value) == "torch.float32" for arg in call.args if arg.keyword):
        return None
    shape, strides = (_numbers(arg.value) for arg in call.args[:2])
    if shape is None or strides is None:
        return None
    expected = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    right = all(size == 1 or stride == want for size, stride, want in zip(shape, strides, expected, strict=True))
    return math.prod(shape) if right else None


def _numbers(node: cst.BaseExpression) -> list[int] | None:
    if not isinstance(node, cst.Tuple) or not all(isinstance(element.value, cst.Integer) for element in node.elements):
        return None
    return [cst.ensure_type(element.value, cst.Integer).evaluated_value for element in node.elements]
