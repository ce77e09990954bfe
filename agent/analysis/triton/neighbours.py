"""Finds a launch whose output buffer nothing reads but the launch that follows it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ..source import code, names
from ..template import match, matches
from ..tree import assigned_name, assignment, find_all, only_line
from .host import whole_numbers
from .kernel import Launch, TritonKernel

_HARMLESS = ("q_name = torch.empty_strided(q__)", "q_name = q_other_name", "del q_name")


@dataclass(frozen=True)
class Neighbours:
    """Two launches with nothing but allocations, other names and `del` between them."""

    producer: Launch
    consumer: Launch
    buffer: cst.BaseStatement
    """`name = torch.empty_strided(shape, strides, dtype=torch.float32, ...)`: contiguous, whole numbers."""
    numel: int
    written: str
    """The producer's parameter that gets the buffer."""
    read: str
    """The consumer's parameter that gets it."""
    between: Sequence[cst.BaseStatement]
    """`name = torch.empty_strided(...)`, `name = other_name` and `del name` between the launches."""
    dels: Sequence[cst.BaseStatement]
    """Every `del` of the buffer."""
    is_used_later: bool
    has_other_name: bool


def neighbours_of(kernel: TritonKernel) -> Iterator[Neighbours]:
    """Yield pairs of launches, in the order of the text."""
    once = [launch for launch in kernel.launched_once() if launch.stands_alone]
    for block in find_all(kernel.module, cst.IndentedBlock):
        body = list(block.body)
        here = [
            (position, launch)
            for position, statement in enumerate(body)
            for launch in once
            if launch.statement is statement
        ]
        for (first, producer), (second, consumer) in itertools.pairwise(here):
            if all(matches(item, *_HARMLESS) for item in body[first + 1 : second]):
                yield from _pairs(body, (first, second), (producer, consumer))


def _pairs(
    body: Sequence[cst.BaseStatement], places: tuple[int, int], pair: tuple[Launch, Launch]
) -> Iterator[Neighbours]:
    (producer, consumer), between = pair, body[places[0] + 1 : places[1]]
    other_names = [(match("q_name = q_other", item) or {}, assigned_name(item)) for item in between]
    for statement in body[: places[0]]:
        numel, buffer = _contiguous(statement), assigned_name(statement)
        if numel is None or buffer is None:
            continue
        called = {buffer, *(name for found, name in other_names if name and found.get("other") == buffer)}
        uses = [item for item in body if item is not statement and names(item) & called]
        written = [name for name, text in producer.texts.items() if text in called]
        read = [name for name, text in consumer.texts.items() if text in called]
        if len(written) != 1 or len(read) != 1:
            continue
        dels = [use for use in uses if isinstance(only_line(use), cst.Del)]
        later = [use for use in uses if use not in (producer.statement, consumer.statement, *between, *dels)]
        if all(body.index(item) > places[1] for item in later):
            names_of = (written[0], read[0])
            yield Neighbours(*pair, statement, numel, *names_of, between, dels, bool(later), len(called) > 1)


def _contiguous(statement: cst.BaseStatement) -> int | None:
    """Return the number of elements of a contiguous fp32 buffer that a statement allocates; None for anything else."""
    parts = assignment(statement)
    found = whole_numbers(parts[2]) if parts is not None and assigned_name(statement) else None
    if parts is None or found is None:
        return None
    shape, strides = found
    is_fp32 = any(code(arg.value) == "torch.float32" for arg in find_all(parts[2], cst.Arg, m.Arg(keyword=m.Name())))
    expected = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    right = all(size == 1 or stride == want for size, stride, want in zip(shape, strides, expected, strict=True))
    return math.prod(shape) if right and is_fp32 else None
