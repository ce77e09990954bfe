"""Tell the cache which loads are read again and which are not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from ...analysis.applicability import require
from ...analysis.change import Change, Rewritten
from ...analysis.triton import (
    Function,
    Launch,
    TritonKernel,
    Values,
    argument,
    assigned_in,
    body_of,
    calls_in,
    has_products,
    passes_of,
)
from ..rule import rule

_BLOCKS = cst.For | cst.If | cst.While


@rule(
    "eviction-hints",
    category="memory",
    work="streams",
    why="a row's second pass comes from the L2 cache when what is never read again leaves it first",
    reads=TritonKernel.read,
)
def eviction_hints(kernel: TritonKernel, change: Change) -> Rewritten:
    """Add eviction policies to loads that have none, in functions without products.

    What a later pass over the same row reads again stays in the cache (evict_last), and so does what all programs read;
    the last read of a row, and what is read once, goes first (evict_first). Hints change no result.
    """
    hinted: list[cst.Call] = []

    def hint(launch: Launch, change: Change) -> None:
        require(not has_products(launch), "the function has products")
        found = [item for item in _policies(launch.function) if argument(item[0], "eviction_policy") is None]
        require(found, "no load is without a hint")
        for call, policy in found:
            change.add_arguments(call, {"eviction_policy": f'"{policy}"'})
        hinted.extend(call for call, _ in found)

    change.each(kernel.launched_once(), hint)
    return change.rewritten(f"told the cache about {len(hinted)} load{'s' * (len(hinted) > 1)}")


def _policies(function: Function) -> Iterator[tuple[cst.Call, str]]:
    """Yield every load with its policy."""
    passes = passes_of(function)
    values = Values()
    program = values.of("tl.program_id(0)")
    found: dict[int, list[tuple[cst.Call, bool]]] = {}
    for call in _loads(values, passes.straight() if passes else body_of(function.node)):
        pointer = argument(call, "pointer", 0)
        # Programs in a row have all remainders, and then the same again.
        parts = list(values.parts(values.of(pointer), into_remainders=False)) if pointer is not None else []
        streams = program in parts or any(values.key(part)[0] == "unknown" for part in parts)
        found.setdefault(values.of(call), []).append((call, streams))
    for calls in found.values():
        for call, _ in calls[:-1]:
            yield call, "evict_last"
        call, streams = calls[-1]
        yield call, "evict_first" if streams else "evict_last"


def _loads(values: Values, body: Iterable[cst.BaseStatement]) -> Iterator[cst.Call]:
    """Yield the loads of a block in the order in which they run, while `values` knows what their addresses are."""
    for statement in body:
        if isinstance(statement, _BLOCKS):
            for name in assigned_in(statement):  # carried from step to step
                values.names[name] = values.unknown(name)
            yield from _loads(values, (item for item in statement.body.body if isinstance(item, cst.BaseStatement)))
            for name in assigned_in(statement):
                values.names[name] = values.unknown(name)
        else:
            yield from calls_in(statement, "load")
            values.run(statement)
