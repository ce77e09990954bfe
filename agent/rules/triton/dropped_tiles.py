"""Leave out the sum for tiles of a product whose results a condition drops, such as those above a triangle."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from ...analysis.source import code, expression, fresh, names, operand, statements, substitute
from ...analysis.template import match, matches
from ...analysis.tree import assigned_in, calls_in, contains, find_all, only_line
from ...analysis.triton import Function, TritonKernel, assigned_names, dots_of, is_range, read_first
from ..rule import Change, Rewritten, need, require, rule

_WHERE = "tl.where(q_condition, q_sum, q_other)"
_PURE = m.Attribute(m.Name("tl"), m.Name(value=m.MatchRegex("(?!store|atomic|load|device_|debug_|inline_|rand).*")))
_METHODS = m.Attribute(attr=m.Name("to") | m.Name("broadcast_to"))


@rule("algorithm", "products", TritonKernel.read).because(
    "of a triangular result only half of the tiles have elements that are kept"
)
def dropped_tiles(kernel: TritonKernel, change: Change) -> Rewritten:
    """A tile's sum has no steps where nothing of it is kept.

    Needs a function whose only loop with products begins at zero and hands one accumulator on, and after it no
    branches: the accumulator reaches memory through one `tl.where(condition, sum, other)` alone, whose condition comes
    of indices.
    """
    change.each(kernel.launched_once(), lambda launch, change: _drop(launch.function, change))
    return change.rewritten("left the sums of tiles out of which nothing is kept")


def _drop(function: Function, change: Change) -> None:
    dots = dots_of(function)
    require(len({(dot.accumulator, id(dot.loop)) for dot in dots}) == 1, "not one loop sums into one accumulator")
    loop, accumulator, body = dots[0].loop, dots[0].accumulator, list(function.node.body.body)
    at = need(function.place_of(loop), "the sum's loop is inside another block")
    plain = _is_range(function, loop) and not any(contains(loop, store) for store in function.stores)
    require(plain, "the sum's loop does not count up from zero, or stores")
    changed = assigned_in(loop)
    rest = [only_line(statement) for statement in body[at + 1 :]]
    lines = [item for item in rest if item is not None]
    alone = len(lines) == len(rest) and not read_first(body[at + 1 :]) & changed - {accumulator}
    require(alone, "after the sum there are branches, or what the loop left is read")
    known = accumulator in assigned_names(body[:at]) and not calls_in(function.node, "tl.atomic_*")
    require(known, "the accumulator does not start before the loop, or the function has atomics")
    place = need(_only_choice(lines, accumulator), "the sum does not reach memory through one `tl.where` alone")
    condition = cst.ensure_type(cst.ensure_type(lines[place], cst.Assign).value, cst.Call).args[0].value
    made_of = _made_of(condition, lines[:place], changed)
    change.put_statements(loop, _guarded(loop, condition, made_of, {*function.parameters, *names(function.node)}))


def _is_range(function: Function, loop: cst.For) -> bool:
    """Return whether a loop begins at zero and goes upwards, to an end that does not come of a tile yet."""
    if not is_range(loop):
        return False
    plain = [code(arg.value) for arg in cst.ensure_type(loop.iter, cst.Call).args if arg.keyword is None]
    ends = [function.value_of(name) for name in names(loop.iter)]
    guarded = any(matches(end, "tl.max(q__)") for end in ends)
    return not guarded and (len(plain) == 1 or (plain[0] == "0" and not plain[-1].startswith("-")))


def _only_choice(lines: Sequence[cst.BaseSmallStatement], accumulator: str) -> int | None:
    """Return the place of the one `tl.where` through which the sum gets on; None where it does in another way."""
    made, found = {accumulator}, list[int]()
    for number, line in enumerate(lines):
        match line:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value):
                reads = bool(names(value) & made)
                parts = match(_WHERE, value) if reads else None
                if parts and not names(*(expression(parts[part]) for part in ("condition", "other"))) & made:
                    found.append(number)
                    reads = False
                if reads and not _is_pure(value):
                    return None
                made = made | {name} if reads else made - {name}
            case _ if names(line) & made:
                return None
    return found[0] if len(found) == 1 else None


def _made_of(
    condition: cst.BaseExpression, lines: Sequence[cst.BaseSmallStatement], changed: set[str]
) -> list[cst.Assign]:
    """Return the lines that make a condition.

    Raises NotApplicableError where they read what the loop changes, or memory.
    """
    wanted, kept, none = names(condition), list[cst.Assign](), "the condition does not come of indices alone"
    for line in reversed(lines):
        updated = isinstance(line, cst.AugAssign | cst.AnnAssign) and names(line.target) & wanted
        require(not updated, none)
        if isinstance(line, cst.Assign) and names(*(item.target for item in line.targets)) & wanted:
            require(len(line.targets) == 1 and isinstance(line.targets[0].target, cst.Name), none)
            kept.insert(0, line)
            wanted = wanted - {code(line.targets[0].target)} | names(line.value)
    require(all(map(_is_pure, [condition, *(line.value for line in kept)])) and not wanted & changed, none)
    return kept


def _is_pure(value: cst.BaseExpression) -> bool:
    return all(m.matches(call.func, _METHODS | _PURE) for call in find_all(value, cst.Call))


def _guarded(
    loop: cst.For, condition: cst.BaseExpression, lines: Sequence[cst.Assign], taken: set[str]
) -> list[cst.BaseStatement]:
    """Write what the condition is made of, and the loop with steps only where it holds somewhere."""
    now: dict[str, str] = {}
    text = "# Where the condition holds for no element of the tile, the sum is dropped.\n"
    for line in lines:
        value = code(substitute(line.value, now))
        name = code(line.targets[0].target)
        now[name] = fresh(f"{name}_of_tile", taken)
        text += f"{now[name]} = {value}\n"
    needed = fresh("needed", taken)
    text += f"{needed} = tl.max(({code(substitute(condition, now))}).to(tl.int32))\n"
    call = cst.ensure_type(loop.iter, cst.Call)
    plain = [i for i, arg in enumerate(call.args) if arg.keyword is None]
    stop = plain[min(1, len(plain) - 1)]
    arguments = list(call.args)
    bound = expression(f"{operand(code(arguments[stop].value))} * {needed}")
    arguments[stop] = arguments[stop].with_changes(value=bound)
    return [*statements(text), loop.with_changes(iter=call.with_changes(args=arguments))]
