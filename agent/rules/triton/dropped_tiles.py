"""No sum for tiles of a product whose results a condition drops, such as those above a triangle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ...analysis.applicability import need, require
from ...analysis.change import Change, Rewritten
from ...analysis.edit import parsed
from ...analysis.search import contains, find_all
from ...analysis.source import code, expression, fresh, names, operand, substitute
from ...analysis.triton import RANGE, Function, Launch, TritonKernel, assigned_names, dots_of, read_first
from ..rule import rule

_MAXIMUM = m.Call(func=m.Attribute(m.Name("tl"), m.Name("max")))
_WHERE = m.Call(func=m.Attribute(m.Name("tl"), m.Name("where")), args=[m.Arg(keyword=None)] * 3)
_PURE = m.Attribute(m.Name("tl"), m.Name(value=m.MatchRegex("(?!store|atomic|load|device_|debug_|inline_|rand).*")))
_METHODS = m.Attribute(attr=m.Name("to") | m.Name("broadcast_to"))


@rule(
    "dropped-tiles",
    category="algorithm",
    work="products",
    why="of a triangular result only half of the tiles have elements that are kept",
    reads=TritonKernel.read,
)
def dropped_tiles(kernel: TritonKernel, change: Change) -> Rewritten:
    """A tile's sum has no steps where nothing of it is kept.

    Needs a function whose only loop with products begins at zero and hands one accumulator on, and after it no
    branches: the accumulator reaches memory through one `tl.where(condition, sum, other)` alone, whose condition comes
    of indices.
    """
    change.each(kernel.launched_once(), _drop)
    return change.rewritten("left the sums of tiles out of which nothing is kept")


def _drop(launch: Launch, change: Change) -> None:
    found = _condition(launch.function)
    new = _guarded(found, {*launch.function.parameters, *names(launch.function.node)})
    change.edit(found.loop, lambda _: cst.FlattenSentinel(new))


@dataclass(frozen=True)
class _Condition:
    loop: cst.For
    node: cst.BaseExpression
    lines: Sequence[cst.Assign]
    """What it is made of after the loop."""


def _condition(function: Function) -> _Condition:
    """Return the condition under which the sum is kept. Raises NotApplicable."""
    dots = dots_of(function)
    require(len({(dot.accumulator, id(dot.loop)) for dot in dots}) == 1, "not one loop sums into one accumulator")
    loop, accumulator, body = dots[0].loop, dots[0].accumulator, list(function.node.body.body)
    at = need(next((i for i, one in enumerate(body) if one is loop), None), "the sum's loop is inside another block")
    plain = _is_range(function, loop) and not any(contains(loop, store) for store in function.stores)
    require(plain, "the sum's loop does not count up from zero, or stores")
    changed = assigned_names([loop]) | names(loop.target)
    changed |= {
        name for match in find_all(loop, m.AugAssign()) for name in names(cst.ensure_type(match, cst.AugAssign).target)
    }
    rest = [_simple(statement) for statement in body[at + 1 :]]
    lines = [item for item in rest if item is not None]
    alone = len(lines) == len(rest) and not read_first(body[at + 1 :]) & changed - {accumulator}
    require(alone, "after the sum there are branches, or what the loop left is read")
    known = accumulator in assigned_names(body[:at]) and "atomic" not in code(function.node)
    require(known, "the accumulator does not start before the loop, or the function has atomics")
    place = need(_only_choice(lines, accumulator), "the sum does not reach memory through one `tl.where` alone")
    return need(_made_of(loop, lines, place, changed), "the condition does not come of indices alone")


def _is_range(function: Function, loop: cst.For) -> bool:
    """Return whether a loop begins at zero and goes upwards, to an end that does not come of a tile yet."""
    if not m.matches(loop, m.For(target=m.Name(), iter=m.Call(func=RANGE), orelse=None)):
        return False
    plain = [code(arg.value) for arg in cst.ensure_type(loop.iter, cst.Call).args if arg.keyword is None]
    ends = [function.value_of(name) for name in names(loop.iter)]
    guarded = any(end is not None and m.matches(end, _MAXIMUM) for end in ends)
    return not guarded and (len(plain) == 1 or (plain[0] == "0" and not plain[-1].startswith("-")))


def _simple(line: cst.CSTNode) -> cst.BaseSmallStatement | None:
    return line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None


def _only_choice(lines: Sequence[cst.BaseSmallStatement], accumulator: str) -> int | None:
    """Return the place of the one `tl.where` through which the sum gets on; None where it does in another way."""
    made, found = {accumulator}, list[int]()
    for number, line in enumerate(lines):
        match line:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value):
                reads = bool(names(value) & made)
                if reads and m.matches(value, _WHERE):
                    condition, _, other = (arg.value for arg in cst.ensure_type(value, cst.Call).args)
                    if not (names(condition) | names(other)) & made:
                        found.append(number)
                        reads = False
                if reads and not _is_pure(value):
                    return None
                made = made | {name} if reads else made - {name}
            case _ if names(line) & made:
                return None
    return found[0] if len(found) == 1 else None


def _made_of(
    loop: cst.For, lines: Sequence[cst.BaseSmallStatement], place: int, changed: set[str]
) -> _Condition | None:
    """Return the condition with the lines that make it, if they read nothing that the loop changes, nor memory."""
    call = cst.ensure_type(cst.ensure_type(lines[place], cst.Assign).value, cst.Call)
    wanted, kept = names(call.args[0].value), list[cst.Assign]()
    for line in reversed(lines[:place]):
        if isinstance(line, cst.AugAssign | cst.AnnAssign) and names(line.target) & wanted:
            return None
        if (
            not isinstance(line, cst.Assign)
            or not {name for item in line.targets for name in names(item.target)} & wanted
        ):
            continue
        if len(line.targets) != 1 or not isinstance(line.targets[0].target, cst.Name):
            return None
        kept.insert(0, line)
        wanted = wanted - {line.targets[0].target.value} | names(line.value)
    pure = all(_is_pure(item) for item in [call.args[0].value, *(line.value for line in kept)])
    return _Condition(loop, call.args[0].value, kept) if pure and not wanted & changed else None


def _is_pure(value: cst.BaseExpression) -> bool:
    """Return whether all calls of an expression are computations of Triton's."""
    calls = find_all(value, m.Call())
    return all(m.matches(cst.ensure_type(call, cst.Call).func, _METHODS | _PURE) for call in calls)


def _guarded(found: _Condition, taken: set[str]) -> list[cst.BaseStatement]:
    """Write what the condition is made of, and the loop with steps only where it holds somewhere."""
    now: dict[str, str] = {}
    text = "# Where the condition holds for no element of the tile, the sum is dropped.\n"
    for line in found.lines:
        value = code(substitute(line.value, now))
        name = code(line.targets[0].target)
        now[name] = fresh(f"{name}_of_tile", taken)
        text += f"{now[name]} = {value}\n"
    needed = fresh("needed", taken)
    text += f"{needed} = tl.max(({code(substitute(found.node, now))}).to(tl.int32))\n"
    call = cst.ensure_type(found.loop.iter, cst.Call)
    plain = [i for i, arg in enumerate(call.args) if arg.keyword is None]
    stop = plain[min(1, len(plain) - 1)]
    arguments = list(call.args)
    bound = expression(f"{operand(code(arguments[stop].value))} * {needed}")
    arguments[stop] = arguments[stop].with_changes(value=bound)
    return [*parsed(text), found.loop.with_changes(iter=call.with_changes(args=arguments))]
