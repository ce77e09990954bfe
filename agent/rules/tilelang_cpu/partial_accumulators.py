"""Break a serial reduction into independent partial accumulators, which a vector unit updates at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import libcst as cst

from ...analysis.applicability import require
from ...analysis.change import Change, Rewritten
from ...analysis.source import Statement, assignment, code, fresh, statements, substitute
from ...analysis.tilelang import Loop, accesses, cpu_tilelang, is_window, loop_of, make_loop, rewrite_kernels
from ..rule import rule

_ALLOCATION = re.compile(r"(\w+) = T\.alloc_local\([^\n]*?,\s*(\"\w+\")\)")
WIDTHS = (8, 16, 32, 64, 128)


@dataclass(frozen=True)
class Reduction:
    """`acc[0] += e` or `acc[0] = T.max(acc[0], e)` as one statement of a loop's body."""

    target: str
    combine: str
    """'+=', 'T.max' or 'T.min'."""
    value: str
    position: int
    dtype: str = ""
    """Element type of the target's buffer, as the source writes it."""


@rule(
    "partial-accumulators",
    category="compute",
    work="streams",
    why="a sum into one scalar waits for every addition; partial accumulators fill the vector unit",
    reads=cpu_tilelang,
)
def partial_accumulators(module: cst.Module, change: Change) -> Rewritten:
    """`for j: acc[0] += f(j)` becomes LANES partial sums, added up at the end.

    A compiler may not reorder floating-point sums, so the scalar form waits for each addition. Needs one sum,
    maximum or minimum into an element that does not depend on the loop; nothing else in the body may touch that
    buffer. The remainder of the extent divided by LANES gets a loop of its own.
    """
    constant = change.constant("LANES", WIDTHS, 16)
    done: list[str] = []
    dtypes = dict(_ALLOCATION.findall(change.kernel.source))

    def rewrite(statement: Statement, after: Sequence[Statement]) -> Sequence[Statement] | None:
        loop = loop_of(statement)
        reduction = _reduction(loop) if loop else None
        dtype = dtypes.get(reduction.target.split("[")[0]) if reduction else None
        if loop is None or reduction is None or dtype is None:
            return None
        done.append(reduction.target)
        return _with_partial_accumulators(loop, replace(reduction, dtype=dtype), constant, change.taken)

    change.module = rewrite_kernels(module, rewrite)
    require(done, "no loop reduces into one element that nothing else in it touches")
    return change.rewritten(f"reduced into {', '.join(dict.fromkeys(done))} through partial accumulators")


def _reduction(loop: Loop) -> Reduction | None:
    found: Reduction | None = None
    if "LANES" in " ".join(loop.extents):
        return None
    # The square window of a pooling or a convolution is too short to gain.
    if loop.kind == "unroll" or is_window(loop) or any(isinstance(s, cst.BaseCompoundStatement) for s in loop.body):
        return None
    for position, statement in enumerate(loop.body):
        parts = assignment(statement)
        if parts is None:
            return None
        target, operator, value = code(parts[0]), parts[1], code(parts[2])
        if not re.fullmatch(r"\w+\[\d+\]", target):
            continue
        extreme = re.fullmatch(rf"(T\.max|T\.min)\({re.escape(target)}, (.*)\)", value)
        if operator == "+=":
            one = Reduction(target, "+=", value, position)
        elif extreme:
            one = Reduction(target, extreme[1], extreme[2], position)
        else:
            return None
        if found is not None:
            return None
        found = one
    if found is None:
        return None
    buffer = found.target.split("[")[0]
    others = [s for i, s in enumerate(loop.body) if i != found.position]
    touched = any(a.buffer == buffer for s in others for a in accesses(s))
    if (
        touched
        or buffer in re.findall(r"\w+", found.value)
        or not set(re.findall(r"\w+", found.value)) & {loop.variables[-1]}
    ):
        return None
    return found


def _with_partial_accumulators(loop: Loop, reduction: Reduction, constant: str, taken: set[str]) -> list[Statement]:
    buffer, lane = fresh("lanes", taken), fresh("lane", set(taken))
    variable, extent = loop.variables[-1], loop.extents[-1]
    extent = extent if re.fullmatch(r"\w+", extent) else f"({extent})"

    def body(index: str, target: str) -> list[Statement]:
        new = list(loop.body)
        new[reduction.position] = _combine(target, reduction.combine, reduction.value)
        moved = [substitute(s, {variable: index}) for s in new]
        return [s for s in moved if isinstance(s, cst.BaseStatement)]

    outer, extents = loop.variables[:-1], loop.extents[:-1]

    def around(inner: list[Statement], last: str) -> Statement:
        result = make_loop([variable], [last], inner)
        return make_loop(outer, extents, [result]) if outer else result

    start = "T.clear({0})" if reduction.combine == "+=" else "T.fill({0}, {1})"
    return [
        *statements(
            f"{buffer} = T.alloc_local(({constant},), {reduction.dtype})\n{start.format(buffer, reduction.target)}\n"
        ),
        around(
            [make_loop([lane], [constant], body(f"{variable} * {constant} + {lane}", f"{buffer}[{lane}]"))],
            f"{extent} // {constant}",
        ),
        make_loop([lane], [constant], [_combine(reduction.target, reduction.combine, f"{buffer}[{lane}]")]),
        around(
            body(f"{extent} // {constant} * {constant} + {variable}", reduction.target),
            f"{extent} % {constant}",
        ),
    ]


def _combine(target: str, operator: str, value: str) -> Statement:
    text = f"{target} += {value}" if operator == "+=" else f"{target} = {operator}({target}, {value})"
    return statements(text + "\n")[0]
