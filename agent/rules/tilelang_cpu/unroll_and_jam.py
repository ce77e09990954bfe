"""Unroll and jam: sum several steps of a reduction in one pass over the accumulators."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from ....core import Parameter
from ...analysis.applicability import require
from ...analysis.change import Change, Rewritten
from ...analysis.source import Statement, assignment, bare, code, expression, fresh, names, statements, substitute
from ...analysis.tilelang import Loop, cpu_tilelang, is_window, nest_of, rebuild, rewrite_kernels
from ..rule import rule

FACTORS = (2, 4, 8, 16)


@rule(
    "unroll-and-jam",
    category="compute",
    work="products",
    why="each accumulator is loaded and stored once per several terms, so arithmetic does not wait for the cache",
    reads=cpu_tilelang,
)
def unroll_and_jam(module: cst.Module, change: Change) -> Rewritten:
    """`for k: for j: acc[j] += f(k, j)` becomes one pass for several k, whose terms are summed first.

    Needs a perfect nest around one `acc[...] += ...` whose index uses an inner loop's variable and not the
    reduction's. A small square window, `T.grid(KS, KS)`, is unrolled completely. (Callahan, Carr, Kennedy:
    Improving register allocation for subscripted variables, PLDI 1990.)
    """
    constants = set(change.kernel.config)
    unroll = fresh("UNROLL", set(change.taken))
    done: list[str] = []
    divided: set[str] = set()

    def rewrite(statement: Statement, after: Sequence[Statement]) -> Sequence[Statement] | None:
        nest = nest_of(statement)
        level = _reduction_level(nest)
        if level is None:
            return None
        loop = nest[level]
        done.append(", ".join(loop.variables))
        if is_window(loop):
            return [_window(nest, level)]
        if loop.extents[0] in constants:
            divided.add(loop.extents[0])
            return [_jammed(nest, level, unroll, change.taken)]
        return [_jammed(nest, level, unroll, change.taken), _remainder(nest, level, unroll)]

    change.module = rewrite_kernels(module, rewrite)
    require(done, "no perfect nest sums steps into accumulators that an inner loop walks")
    did = f"summed several steps of the loop over {' and '.join(dict.fromkeys(done))} at once"
    if unroll not in change.module.code:
        return change.rewritten(did)
    fitting = [f for f in FACTORS if all(int(change.kernel.config[name]) % f == 0 for name in divided)]
    require(fitting, "no factor divides the loop's extent")
    change.add(Parameter(unroll, FACTORS, 4 if 4 in fitting else fitting[0]))
    change.parameters += [Parameter(name, [change.kernel.config[name]]) for name in sorted(divided)]
    change.constraints += [f"{name} % {unroll} == 0" for name in sorted(divided)]
    return change.rewritten(did)


def _reduction_level(nest: Sequence[Loop]) -> int | None:
    """Return the loop to unroll: the innermost whose variables the accumulator's index lacks, or None."""
    if len(nest) < 2:
        return None
    parts = assignment(nest[-1].only)
    if parts is None or parts[1] != "+=":
        return None
    target, _, value = parts
    # One jam is enough: what it left over, and a sum of sums of the next loop out, are no faster.
    if m.findall(value, m.GeneratorExp()) or any("UNROLL" in extent for loop in nest for extent in loop.extents):
        return None
    buffer, index = re.match(r"\w+", code(target)), names(target)
    if buffer is None or buffer[0] in names(value):
        return None
    # Below the reduction some loop must walk the accumulators, or its steps share nothing.
    walked = {v for loop in nest if loop.kind != "unroll" for v in loop.variables} & index
    if not walked:
        return None
    for level in range(len(nest) - 2, -1, -1):
        loop = nest[level]
        if index & set(loop.variables) or loop.kind == "unroll":
            continue
        below = nest[level + 1 :]
        if not any(walked & set(inner.variables) for inner in below):
            continue
        # A loop whose extent depends on this variable (a triangle) cannot be jammed.
        if any(set(loop.variables) & names(expression(extent)) for inner in below for extent in inner.extents):
            continue
        if is_window(loop) or len(loop.variables) == 1:
            return level
    return None


def _wrap(nest: Sequence[Loop], level: int, body: Statement, extent: str | None, below: Sequence[Loop]) -> Statement:
    """Rebuild the nest around a new innermost statement; an extent of None drops the loop at `level`."""
    result = body
    for loop in reversed(below):
        result = rebuild(loop, [result])
    if extent is not None:
        result = rebuild(nest[level], [result], [extent])
    for loop in reversed(nest[:level]):
        result = rebuild(loop, [result])
    return result


def _sum_statement(nest: Sequence[Loop], value: str, generators: str) -> Statement:
    parts = assignment(nest[-1].only)
    assert parts is not None
    new = statements(f"{code(parts[0])} += sum({value} {generators})\n")[0]
    old = nest[-1].only
    assert isinstance(old, cst.SimpleStatementLine)
    return new.with_changes(leading_lines=old.leading_lines)


def _window(nest: Sequence[Loop], level: int) -> Statement:
    parts = assignment(nest[-1].only)
    assert parts is not None
    loop = nest[level]
    generators = " ".join(f"for {v} in range({e})" for v, e in zip(loop.variables, loop.extents, strict=True))
    return _wrap(nest, level, _sum_statement(nest, code(bare(parts[2])), generators), None, nest[level + 1 :])


def _jammed(nest: Sequence[Loop], level: int, unroll: str, taken: set[str]) -> Statement:
    parts = assignment(nest[-1].only)
    assert parts is not None
    variable, extent = nest[level].variables[0], nest[level].extents[0]
    step = fresh("u", set(taken))
    value = code(bare(substitute(parts[2], {variable: f"{variable} * {unroll} + {step}"})))
    body = _sum_statement(nest, value, f"for {step} in range({unroll})")
    return _wrap(nest, level, body, f"{_operand(extent)} // {unroll}", nest[level + 1 :])


def _remainder(nest: Sequence[Loop], level: int, unroll: str) -> Statement:
    variable, extent = nest[level].variables[0], nest[level].extents[0]
    parts = assignment(nest[-1].only)
    assert parts is not None and nest[-1].only is not None
    done = f"{_operand(extent)} // {unroll} * {unroll}"
    body = substitute(nest[-1].only, {variable: f"{done} + {variable}"})
    assert isinstance(body, Statement)
    return _wrap(nest, level, body, f"{_operand(extent)} % {unroll}", nest[level + 1 :])


def _operand(text: str) -> str:
    return text if re.fullmatch(r"\w+|[\w.]+\(.*\)", text) else f"({text})"
