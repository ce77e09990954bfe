"""Launch plans that depend on integers of the inputs: what differs between the plans of several sets of integers.

A plan is recorded on a set's integers and other floating-point numbers than it is replayed on, so nothing that it has
of these can be right. What it can carry of the integers is bounded here: few numbers, no floats, no contents of
constants, and code that does not change with each set.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.launch_plan import LaunchPlan, LaunchStep, ParallelStep, Step

SETS = 6
"""Sets of integers for which plans are recorded and replayed."""
MOST_INTEGERS = 64
"""Integers in which a plan may differ from those of other sets. One that is alike in several places counts once."""
MOST_CODES = SETS // 2
"""Codes of one kernel in the plans of all sets: a compiler specialises a kernel for few integers, such as multiples
of 16. More would carry what was computed beforehand."""
_TENSORS = ("tensor", "descriptor")


class UnboundedPlansError(Exception):
    """Plans whose differences are more than a few integers; the message says what differs."""


def integers_that_differ(plans: Sequence[LaunchPlan]) -> int:
    """Return how many integers of a plan depend on its set of integers, at most `MOST_INTEGERS`.

    Raises `UnboundedPlansError` where plans differ in anything else, or in more.
    """
    first = plans[0]
    for other in plans[1:]:
        if (other.weights, other.constants) != (first.weights, first.constants) or other.packing != first.packing:
            raise UnboundedPlansError("a tensor that outlives the call has contents that depend on them")
        if (other.returns, len(other.outputs)) != (first.returns, len(first.outputs)):
            raise UnboundedPlansError("it returns another number of tensors")
    codes: dict[str, set[str]] = defaultdict(set)
    for plan in plans:
        for code in plan.codes.values():
            codes[code.name].add(code.digest)
    for name, found in codes.items():
        if len(found) > MOST_CODES:
            raise UnboundedPlansError(
                f"the code of {name} differs from set to set; pass what it depends on as arguments"
            )
    forms = [[_Form.of(step, plan) for step in plan.steps] for plan in plans]
    if all([item.alike for item in form] == [item.alike for item in forms[0]] for form in forms):
        columns = zip(*([number for item in form for number in item.integers] for form in forms), strict=True)
        count = len({column for column in columns if len(set(column)) > 1})
    else:
        given = [number for number in first.inputs if isinstance(number, int)]
        named = {*given, *first.weights.values(), *first.constants, *first.packed}
        count = max(_beyond(mine, other, named) for mine in forms for other in forms)
    if count > MOST_INTEGERS:
        raise UnboundedPlansError(f"{count} integers, of which at most {MOST_INTEGERS} may reach the launches")
    return count


@dataclass
class _Form:
    """A step in parts."""

    shape: str
    """All of it but what follows."""
    integers: list[Any]
    """In order; also which code a kernel has."""
    tensors: list[int]
    results: tuple[int, ...]

    @property
    def alike(self) -> tuple[str, list[int], tuple[int, ...]]:
        """What two steps have in common that differ in integers only."""
        return self.shape, self.tensors, self.results

    @classmethod
    def of(cls, step: Step, plan: LaunchPlan) -> _Form:
        """Take a step of a plan apart."""
        if isinstance(step, ParallelStep):
            parts = [cls.of(launch, plan) for launch in step.launches]
            shape = f"parallel {[part.shape for part in parts]!r}"
            integers = [number for part in parts for number in part.integers]
            return cls(shape, integers, [number for part in parts for number in part.tensors], ())
        found = cls("", [], [], ())
        if isinstance(step, LaunchStep):
            found.integers.append(step.code)
            given = [found._without(item) for item in (*step.arguments, *step.grid)]
            found.shape = repr((plan.codes[step.code].name, len(step.grid), given))
            return found
        given = [found._without(item) for item in (*step.args, *step.kwargs.items())]
        found.results = step.results
        for layout in step.layouts:
            found.integers += [*layout.shape, *layout.strides, layout.offset]
        found.shape = repr((step.operator, given, [(len(item.shape), item.dtype) for item in step.layouts]))
        return found

    def _without(self, form: Any) -> Any:
        """Return an argument's form without integers and numbers of tensors, which are added to those of this step."""
        if isinstance(form, int):  # a bool says no more than an integer
            self.integers.append(form)
            return "an integer"
        if isinstance(form, list | tuple):
            return [self._without(item) for item in form]
        if not isinstance(form, dict):
            return form
        self.tensors += [form[key] for key in _TENSORS if key in form]
        return {key: None if key in _TENSORS else self._without(value) for key, value in form.items()}


def _beyond(mine: Sequence[_Form], other: Sequence[_Form], named: Iterable[int]) -> int:
    """Return how many integers one plan has that the other one does not have in the same place.

    A step without a counterpart counts as one more, since its being there says something too, and so do the tensors
    that a step uses where its counterpart uses others. Those that are `named` exist before the call, and are the same.
    """
    pairs = difflib.SequenceMatcher(None, [item.shape for item in mine], [item.shape for item in other], autojunk=False)
    count = sum(1 + len(item.integers) + len(item.tensors) for item in mine)
    same = {number: number for number in named}
    for block in pairs.get_matching_blocks():
        for number in range(block.size):
            own, its = mine[block.a + number], other[block.b + number]
            count -= 1 + sum(item == wanted for item, wanted in zip(own.integers, its.integers, strict=True))
            count -= sum(same.get(item) == wanted for item, wanted in zip(own.tensors, its.tensors, strict=True))
            same.update(zip(own.results, its.results, strict=True))
    return count
