"""Unroll and jam: sum several steps of a reduction in one pass over the accumulators."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import libcst as cst

from ....core import Parameter
from ...analysis.source import bare, code, expression, fresh, names, statements, substitute
from ...analysis.tilelang import Rewriting, TileLangLoop, cpu_tilelang, is_window, nest_of, rebuild, rewrite_kernels
from ...analysis.tree import Statement, assignment, find_all
from ..rule import Change, NotApplicableError, Rewritten, need, require, rule

FACTORS = (2, 4, 8, 16)
_NONE = "no perfect nest sums steps into accumulators that an inner loop walks"


@rule("compute", "products", cpu_tilelang).because(
    "each accumulator is loaded and stored once per several terms, so arithmetic does not wait for the cache"
)
def unroll_and_jam(module: cst.Module, change: Change) -> Rewritten:
    """`for k: for j: acc[j] += f(k, j)` becomes one pass for several k, whose terms are summed first.

    Needs a perfect nest around one `acc[...] += ...` whose index uses an inner loop's variable and not the
    reduction's. A small square window, `T.grid(KS, KS)`, is unrolled completely. (Callahan, Carr, Kennedy:
    Improving register allocation for subscripted variables, PLDI 1990.)
    """
    constants = set(change.kernel.config)
    unroll = fresh("UNROLL", set(change.taken))
    divided: set[str] = set()

    def rewrite(statement: Statement) -> Rewriting[str]:
        nest = nest_of(statement)
        level = _reduction_level(nest)
        loop, done = nest[level], ", ".join(nest[level].variables)
        if is_window(loop):
            return done, [_window(nest, level)]
        if loop.extents[0] in constants:
            divided.add(loop.extents[0])
            return done, [_jammed(nest, level, unroll, change.taken)]
        return done, [_jammed(nest, level, unroll, change.taken), _remainder(nest, level, unroll)]

    done = rewrite_kernels(change, rewrite, _NONE)
    did = f"summed several steps of the loop over {' and '.join(dict.fromkeys(done))} at once"
    if unroll not in change.module.code:
        return change.rewritten(did)
    fitting = [f for f in FACTORS if all(int(change.kernel.config[name]) % f == 0 for name in divided)]
    require(fitting, "no factor divides the loop's extent")
    change.add(Parameter(unroll, FACTORS, 4 if 4 in fitting else fitting[0]))
    change.parameters += [Parameter(name, [change.kernel.config[name]]) for name in sorted(divided)]
    change.constraints += [f"{name} % {unroll} == 0" for name in sorted(divided)]
    return change.rewritten(did)


def _reduction_level(nest: Sequence[TileLangLoop]) -> int:
    """Return the loop to unroll: the innermost whose variables the accumulator's index lacks.

    Raises NotApplicableError.
    """
    target, operator, value = need(assignment(nest[-1].only) if nest else None, _NONE)
    # One jam is enough: what it left over, and a sum of sums of the next loop out, are no faster.
    jammed = find_all(value, cst.GeneratorExp) or any("UNROLL" in extent for loop in nest for extent in loop.extents)
    buffer, index = need(re.match(r"\w+", code(target)), _NONE), names(target)
    require(operator == "+=" and not jammed and buffer[0] not in names(value), _NONE)
    # Below the reduction some loop must walk the accumulators, or its steps share nothing.
    walked = {v for loop in nest if loop.kind != "unroll" for v in loop.variables} & index
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
    raise NotApplicableError(_NONE)


def _wrap(nest: Sequence[TileLangLoop], level: int, body: Statement, extent: str | None) -> Statement:
    """Rebuild the nest around a new innermost statement; an extent of None drops the loop at `level`."""
    for position in range(len(nest) - 1, -1, -1):
        if position != level or extent is not None:
            body = rebuild(nest[position], [body], [extent] if position == level and extent else None)
    return body


def _summed(nest: Sequence[TileLangLoop], values: Mapping[str, str], generators: str) -> Statement:
    """Return the innermost statement with the sum over some steps, where names have other values, for its term."""
    line = cst.ensure_type(nest[-1].only, cst.SimpleStatementLine)
    parts = assignment(line)
    assert parts is not None
    term = code(bare(substitute(parts[2], values)))
    (new,) = statements(f"{code(parts[0])} += sum({term} {generators})\n")
    return new.with_changes(leading_lines=line.leading_lines)


def _window(nest: Sequence[TileLangLoop], level: int) -> Statement:
    loop = nest[level]
    generators = " ".join(f"for {v} in range({e})" for v, e in zip(loop.variables, loop.extents, strict=True))
    return _wrap(nest, level, _summed(nest, {}, generators), None)


def _jammed(nest: Sequence[TileLangLoop], level: int, unroll: str, taken: set[str]) -> Statement:
    variable, extent = nest[level].variables[0], nest[level].extents[0]
    step = fresh("u", set(taken))
    body = _summed(nest, {variable: f"{variable} * {unroll} + {step}"}, f"for {step} in range({unroll})")
    return _wrap(nest, level, body, f"{_operand(extent)} // {unroll}")


def _remainder(nest: Sequence[TileLangLoop], level: int, unroll: str) -> Statement:
    variable, extent = nest[level].variables[0], _operand(nest[level].extents[0])
    line = cst.ensure_type(nest[-1].only, cst.SimpleStatementLine)
    body = substitute(line, {variable: f"{extent} // {unroll} * {unroll} + {variable}"})
    return _wrap(nest, level, body, f"{extent} % {unroll}")


def _operand(text: str) -> str:
    return text if re.fullmatch(r"\w+|[\w.]+\(.*\)", text) else f"({text})"
