"""Break a serial reduction into independent partial accumulators, which a vector unit updates at once."""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst

from ...analysis.source import code, fresh, statements, substitute
from ...analysis.template import match
from ...analysis.tilelang import (
    Rewriting,
    TileLangLoop,
    accesses,
    cpu_tilelang,
    is_window,
    loop_of,
    make_loop,
    rewrite_kernels,
)
from ...analysis.tree import Statement, assignment, find_all
from ..rule import Change, Rewritten, need, require, rule

_NONE = "no loop reduces into one element that nothing else in it touches"
WIDTHS = (8, 16, 32, 64, 128)


@dataclass(frozen=True)
class Reduction:
    """`acc[0] += e` or `acc[0] = T.max(acc[0], e)` as one statement of a loop's body."""

    target: str
    combine: str
    """'+=', 'T.max' or 'T.min'."""
    value: str
    position: int


@rule("compute", "streams", cpu_tilelang).because(
    "a sum into one scalar waits for every addition; partial accumulators fill the vector unit"
)
def partial_accumulators(module: cst.Module, change: Change) -> Rewritten:
    """`for j: acc[0] += f(j)` becomes LANES partial sums, added up at the end.

    A compiler may not reorder floating-point sums, so the scalar form waits for each addition. Needs one sum,
    maximum or minimum into an element that does not depend on the loop; nothing else in the body may touch that
    buffer. The remainder of the extent divided by LANES gets a loop of its own.
    """
    constant = change.constant("LANES", WIDTHS, 16)
    allocated = [match("q_name = T.alloc_local(q_shape, q_dtype, q__)", node) for node in find_all(module, cst.Assign)]
    dtypes = {found["name"]: found["dtype"] for found in allocated if found}

    def rewrite(statement: Statement) -> Rewriting[str]:
        loop = need(loop_of(statement), _NONE)
        reduction = _reduction(loop)
        dtype = need(dtypes.get(reduction.target.split("[")[0]), _NONE)
        return reduction.target, _with_partial_accumulators(loop, reduction, dtype, constant, change.taken)

    done = rewrite_kernels(change, rewrite, _NONE)
    return change.rewritten(f"reduced into {', '.join(dict.fromkeys(done))} through partial accumulators")


def _reduction(loop: TileLangLoop) -> Reduction:
    # The square window of a pooling or a convolution is too short to gain.
    require("LANES" not in " ".join(loop.extents) and loop.kind != "unroll" and not is_window(loop), _NONE)
    found: list[Reduction] = []
    for position, statement in enumerate(loop.body):
        left, operator, right = need(assignment(statement), _NONE)
        target, value = code(left), code(right)
        if re.fullmatch(r"\w+\[\d+\]", target):
            extreme = re.fullmatch(rf"(T\.max|T\.min)\({re.escape(target)}, (.*)\)", value)
            require(operator == "+=" or extreme, _NONE)
            combine, value = (extreme[1], extreme[2]) if extreme and operator == "=" else ("+=", value)
            found.append(Reduction(target, combine, value, position))
    require(len(found) == 1, _NONE)
    buffer, words = found[0].target.split("[")[0], re.findall(r"\w+", found[0].value)
    others = [s for i, s in enumerate(loop.body) if i != found[0].position]
    touched = any(a.buffer == buffer for s in others for a in accesses(s))
    require(not touched and buffer not in words and loop.variables[-1] in words, _NONE)
    return found[0]


def _with_partial_accumulators(
    loop: TileLangLoop, reduction: Reduction, dtype: str, constant: str, taken: set[str]
) -> list[Statement]:
    """Write the loop anew; `dtype` is that of the target's buffer, as the source writes it."""
    buffer, lane = fresh("lanes", taken), fresh("lane", set(taken))
    variable, extent = loop.variables[-1], loop.extents[-1]
    extent = extent if re.fullmatch(r"\w+", extent) else f"({extent})"

    def combine(target: str, value: str) -> Statement:
        how = reduction.combine
        return statements(f"{target} += {value}\n" if how == "+=" else f"{target} = {how}({target}, {value})\n")[0]

    def body(index: str, target: str) -> list[Statement]:
        new = list(loop.body)
        new[reduction.position] = combine(target, reduction.value)
        return [substitute(s, {variable: index}) for s in new]

    def around(inner: list[Statement], last: str) -> Statement:
        result = make_loop([variable], [last], inner)
        return make_loop(loop.variables[:-1], loop.extents[:-1], [result]) if loop.variables[1:] else result

    start = f"T.clear({buffer})" if reduction.combine == "+=" else f"T.fill({buffer}, {reduction.target})"
    lanes = make_loop([lane], [constant], body(f"{variable} * {constant} + {lane}", f"{buffer}[{lane}]"))
    rest = body(f"{extent} // {constant} * {constant} + {variable}", reduction.target)
    return [
        *statements(f"{buffer} = T.alloc_local(({constant},), {dtype})\n{start}\n"),
        around([lanes], f"{extent} // {constant}"),
        make_loop([lane], [constant], [combine(reduction.target, f"{buffer}[{lane}]")]),
        around(rest, f"{extent} % {constant}"),
    ]
