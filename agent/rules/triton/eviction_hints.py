"""Tell the cache which loads are read again and which are not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ....core import PythonKernel
from ...analysis.edit import Edit, edited, with_arguments
from ...analysis.search import find_all
from ...analysis.triton.blocks import has_products
from ...analysis.triton.function import Function, argument
from ...analysis.triton.kernel import TritonFile
from ...analysis.triton.passes import body_of, passes_of
from ...analysis.triton.values import Values, assigned_in
from ..rule import Machine, Rewritten, with_source

_LOAD = m.Call(func=m.Attribute(m.Name("tl"), m.Name("load")))
_BLOCKS = cst.For | cst.If | cst.While


@dataclass(frozen=True)
class EvictionHints:
    """Add eviction policies to loads that have none, in functions without products.

    What a later pass over the same row reads again stays in the cache (evict_last), and so does what all programs read;
    the last read of a row, and what is read once, goes first (evict_first). Hints change no result.
    """

    name = "eviction-hints"
    category = "memory"
    work = "streams"
    why = "a row's second pass comes from the L2 cache when what is never read again leaves it first"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with hints, or None where every load has one."""
        file = TritonFile.read(kernel)
        if file is None:
            return None
        edits: dict[cst.CSTNode, Edit] = {}
        for launch in file.launched_once():
            for call, policy in () if has_products(launch) else _policies(launch.function):
                if argument(call, "eviction_policy") is None:
                    edits[call] = with_arguments({"eviction_policy": f'"{policy}"'})
        if not edits:
            return None
        did = f"told the cache about {len(edits)} load{'s' * (len(edits) > 1)}"
        return Rewritten(with_source(kernel, edited(file.module, edits)), did)


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
            inner = [one for one in statement.body.body if isinstance(one, cst.BaseStatement)]
            yield from _loads(values, inner)
            for name in assigned_in(statement):
                values.names[name] = values.unknown(name)
        else:
            yield from (cst.ensure_type(call, cst.Call) for call in find_all(statement, _LOAD))
            values.run(statement)
