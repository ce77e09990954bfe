"""Launch plans that depend on integers of the inputs: what differs between the plans of several sets of integers.

A plan is recorded on a set's integers and other floating-point numbers than it is replayed on, so nothing that it has
of these can be right. What it can carry of the integers is bounded here: few numbers, none in constants and their
shapes, and no code that is new with each set.
"""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.launch_plan import LaunchPlan, LaunchStep, ParallelStep, Step

SETS = 6
"""Sets of integers for which plans are recorded and replayed."""
MOST_INTEGERS = 64
"""Numbers and strings in which a plan may differ from those of other sets."""
MOST_CODES = SETS // 2
"""Codes of one kernel in the plans of all sets, and plans with code that none before had: a compiler specialises a
kernel for few integers, such as multiples of 16. More would carry what was computed beforehand."""
_TENSORS = ("tensor", "descriptor")


class UnboundedPlansError(Exception):
    """Plans whose differences are more than a few integers; the message says what differs."""


class IntegerSets:
    """The seeds of the sets of integers that kernels are judged on: the same for all that are compared with each other,
    since they are compared by their times on them, and others for the next comparison, since a process may live on."""

    def __init__(self) -> None:
        self._seeds: tuple[int, ...] = ()

    def seeds(self, draw: Callable[[], int]) -> tuple[int, ...]:
        """Return the seeds, drawn at their first use."""
        if not self._seeds:
            self._seeds = tuple(draw() for _ in range(SETS))
        return self._seeds

    def forget(self) -> None:
        """Let others be drawn."""
        self._seeds = ()


def integers_that_differ(plans: Sequence[LaunchPlan]) -> int:
    """Return how many numbers of a plan depend on its set of integers, at most `MOST_INTEGERS`.

    The plans are in the order in which they were recorded. Raises `UnboundedPlansError` where plans differ in anything
    else, or in more.
    """
    first = plans[0]
    for other in plans[1:]:
        if _existing(other) != _existing(first) or other.packing != first.packing:
            raise UnboundedPlansError("a tensor that outlives the call has contents or a shape that depend on them")
        if (other.returns, len(other.outputs)) != (first.returns, len(first.outputs)):
            raise UnboundedPlansError("it returns another number of tensors")
    _require_few_codes(plans)
    forms = [[*(_Form.of(step, plan) for step in plan.steps), _Form.of_outputs(plan)] for plan in plans]
    if all([item.alike for item in form] == [item.alike for item in forms[0]] for form in forms):
        places = [(item.shape, number) for item in forms[0] for number in range(len(item.values))]
        rows = [[value for item in form for value in item.values] for form in forms]
        count = max(_untold(row, [other for other in rows if other is not row], places) for row in rows)
    else:
        given = [number for number in first.inputs if isinstance(number, int)]
        named = {*given, *first.weights.values(), *first.constants, *first.packed}
        count = max(_beyond(mine, other, named) for mine in forms for other in forms)
    if count > MOST_INTEGERS:
        raise UnboundedPlansError(f"{count} integers, of which at most {MOST_INTEGERS} may reach the launches")
    return count


def _existing(plan: LaunchPlan) -> tuple[Any, ...]:
    """Return what a plan says of the tensors that exist before a call."""
    inputs = [number if isinstance(number, int) else None for number in plan.inputs]
    layouts = {number: plan.layouts.get(number) for number in (*plan.constants, *plan.packed)}
    return inputs, plan.weights, plan.constants, plan.packed, layouts


def _require_few_codes(plans: Sequence[LaunchPlan]) -> None:
    """Raise `UnboundedPlansError` where code differs from set to set: of one kernel, or by other names."""
    codes: dict[str, set[str]] = defaultdict(set)
    known: set[str] = set()
    bringing = 0
    for plan in plans:
        used = {code.digest: code.name for code in plan.codes.values()}
        for digest, name in used.items():
            codes[name].add(digest)
        # Not those whose code no other has: a later plan could launch it for nothing.
        bringing += not used.keys() <= known
        known |= used.keys()
    for name, found in codes.items():
        if len(found) > MOST_CODES:
            raise UnboundedPlansError(
                f"the code of {name} differs from set to set; pass what it depends on as arguments"
            )
    if bringing > MOST_CODES:
        raise UnboundedPlansError(
            f"{bringing} of {len(plans)} sets bring kernels of their own; pass what these depend on as arguments"
        )


@dataclass
class _Form:
    """A step in parts."""

    shape: str
    """All of it but what follows."""
    values: list[str] = field(default_factory=list)
    """Numbers and strings in order; also which code a kernel has."""
    tensors: list[int] = field(default_factory=list)
    results: tuple[int, ...] = ()

    @property
    def alike(self) -> tuple[str, list[int], tuple[int, ...]]:
        """What two steps have in common that differ in values only."""
        return self.shape, self.tensors, self.results

    @classmethod
    def of(cls, step: Step, plan: LaunchPlan) -> _Form:
        """Take a step of a plan apart."""
        if isinstance(step, ParallelStep):
            parts = [cls.of(launch, plan) for launch in step.launches]
            shape = f"parallel {[part.shape for part in parts]!r}"
            values = [value for part in parts for value in part.values]
            return cls(shape, values, [number for part in parts for number in part.tensors])
        found = cls("")
        if isinstance(step, LaunchStep):
            found.values.append(step.code)
            given = [found._without(item) for item in (*step.arguments, *step.grid)]
            found.shape = repr((plan.codes[step.code].name, len(step.grid), given))
            return found
        unnamed = [found._without(item) for item in step.args]
        named = {key: found._without(value) for key, value in step.kwargs.items()}
        found.results = step.results
        for layout in step.layouts:
            found.values += map(repr, (*layout.shape, *layout.strides, layout.offset))
        found.shape = repr((step.operator, unnamed, named, [(len(item.shape), item.dtype) for item in step.layouts]))
        return found

    @classmethod
    def of_outputs(cls, plan: LaunchPlan) -> _Form:
        """Return which tensors are returned, as a last step: their order says something, too."""
        return cls("outputs", tensors=[*plan.outputs])

    def _without(self, form: Any) -> Any:
        """Return an argument's form without numbers, strings, and numbers of tensors, which are added to those of this
        step.

        As text, since 0.0, -0.0, False and 0 are equal. Dtypes and devices are few, and stay in the form.
        """
        if isinstance(form, int | float | str) or (isinstance(form, dict) and [*form] == ["float"]):
            self.values.append(repr(form))
            return "a value"
        if isinstance(form, list | tuple):
            return [self._without(item) for item in form]
        if not isinstance(form, dict) or [*form] in (["torch"], ["device"]):
            return form
        self.tensors += [form[key] for key in _TENSORS if key in form]
        return {key: None if key in _TENSORS else self._without(value) for key, value in form.items()}


def _untold(own: Sequence[str], others: Sequence[Sequence[str]], places: Sequence[tuple[str, int]]) -> int:
    """Return how many of a plan's values do not follow from those that it has elsewhere and those of other plans.

    Places that are alike in each of the others have one value here, which counts once, and each that differs from it
    counts as well. To count columns that differ would not do: of flags there are few, however many flags there are.
    """
    groups: dict[tuple[str, ...], dict[tuple[str, int], Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for value, place, *column in zip(own, places, *others, strict=True):
        groups[tuple(column)][place][value] += 1
    count = 0
    for elsewhere, by_place in groups.items():
        # The others say what it is here as well, where they agree on it.
        expected = elsewhere[0] if len({*elsewhere}) == 1 else None
        # Flags may be alike in the others by accident, but hardly so wherever one argument of one kernel is concerned.
        together = _exceptions(sum(by_place.values(), Counter()), expected, may_change=expected is None)
        apart = sum(_exceptions(values, expected, may_change=True) for values in by_place.values())
        count += min(together, apart)
    return count


def _exceptions(values: Counter[str], expected: str | None, may_change: bool) -> int:
    """Return how many values are to be told: those that are not the expected one, or another one and those that are not
    that."""
    if not may_change:
        return values.total() - values[expected or ""]
    ((usual, times),) = values.most_common(1)
    changed = values.total() - times + (usual != expected)
    return changed if expected is None else min(changed, values.total() - values[expected])


def _beyond(mine: Sequence[_Form], other: Sequence[_Form], named: Iterable[int]) -> int:
    """Return how many values one plan has that the other one does not have in the same place.

    A step without a counterpart counts as one more, since its being there says something too, and so do the tensors
    that a step uses where its counterpart uses others. Those that are `named` exist before the call, and are the same.
    """
    pairs = difflib.SequenceMatcher(None, [item.shape for item in mine], [item.shape for item in other], autojunk=False)
    count = sum(1 + len(item.values) + len(item.tensors) for item in mine)
    same = {number: number for number in named}
    for block in pairs.get_matching_blocks():
        for number in range(block.size):
            own, its = mine[block.a + number], other[block.b + number]
            count -= 1 + sum(item == wanted for item, wanted in zip(own.values, its.values, strict=True))
            count -= sum(same.get(item) == wanted for item, wanted in zip(own.tensors, its.tensors, strict=True))
            same.update(zip(own.results, its.results, strict=True))
    return count
