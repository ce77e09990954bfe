"""Tell the cache which loads are read again and which are not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

import libcst as cst

from ...analysis.tree import assigned_in, block_of, body_of, calls_in
from ...analysis.triton import Function, Launch, TritonKernel, ValueNumbers, argument, passes_of
from ..rule import Change, NotApplicableError, Rewritten, require, rule

_BLOCKS = cst.For | cst.If | cst.While


@rule("memory", "streams", TritonKernel.read).because(
    "a row's second pass comes from the L2 cache when what is never read again leaves it first"
)
def eviction_hints(kernel: TritonKernel, change: Change) -> Rewritten:
    """Add eviction policies to loads that have none, in functions without products.

    What a later pass over the same row reads again stays in the cache (evict_last), and so does what all programs read;
    the last read of a row, and what is read once, goes first (evict_first). Hints change no result.
    """

    def hint(launch: Launch, change: Change) -> int:
        require(not launch.function.has_products, "the function has products")
        found = [item for item in _policies(launch.function) if argument(item[0], "eviction_policy") is None]
        require(found, "no load is without a hint")
        for call, policy in found:
            change.add_arguments(call, {"eviction_policy": f'"{policy}"'})
        return len(found)

    hinted = sum(change.each(kernel.launched_once(), hint))
    return change.rewritten(f"told the cache about {hinted} load{'s' * (hinted > 1)}")


def _policies(function: Function) -> Iterator[tuple[cst.Call, str]]:
    values, body = ValueNumbers(), iter(body_of(function.node))
    with suppress(NotApplicableError):
        body = passes_of(function).straight()
    program = values.of("tl.program_id(0)")
    found: dict[int, list[tuple[cst.Call, bool]]] = {}
    for call in _loads(values, body):
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


def _loads(values: ValueNumbers, body: Iterable[cst.BaseStatement]) -> Iterator[cst.Call]:
    """Yield the loads of a block in the order in which they run, while `values` knows what their addresses are."""
    for statement in body:
        if isinstance(statement, _BLOCKS):
            values.forget(assigned_in(statement))
            yield from _loads(values, block_of(statement))
            values.forget(assigned_in(statement))
        else:
            yield from calls_in(statement, "tl.load")
            values.run(statement)
