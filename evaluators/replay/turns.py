"""Brings a recording into an order that does not depend on how the threads of the candidate took turns.

While a pool launches parts of a kernel, the calling thread goes on: it makes views and allocates the next parts. So the
order of such steps, the numbers of their tensors and which thread was the first to see a view differ from call to call,
although the call does the same.

Launches that share only what both read are parallel. Which of its tensors a kernel may write to is read from its
generated C; that orders the steps of a recording, whose results are compared: nothing depends on its being right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.launch_plan import KernelCode, LaunchStep, ParallelStep, Step, TensorLayout, TorchStep
from .values import numbers_in

_UNORDERED = 1 << 40
"""The place of a tensor that another thread was the first to see, among those that have one."""
_STATEMENT = re.compile(r"[;{}]")
_ASSIGNMENT = re.compile(r"(?<![<>=!])=(?!=)|\+\+|--")
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class RecordedStep:
    """A step as it was recorded: by which thread, None for the calling one. A `free` one computes nothing: it makes a
    view or allocates, so it can be done earlier."""

    step: TorchStep | LaunchStep
    thread: int | None
    free: bool = False


@dataclass(frozen=True)
class TensorPlace:
    """Where a tensor lies: its storage, its layout there, and the thread that numbered it, None for the calling one."""

    storage: int
    layout: TensorLayout
    thread: int | None

    @property
    def span(self) -> tuple[int, int]:
        """The elements of the storage from its first to behind its last."""
        extents = zip(self.layout.shape, self.layout.strides, strict=True)
        last = sum((extent - 1) * stride for extent, stride in extents) if self.layout.elements else -1
        return self.layout.offset, self.layout.offset + last + 1

    def overlaps(self, other: TensorPlace) -> bool:
        """Return whether they may have memory in common; of two dtypes one cannot tell."""
        if self.storage != other.storage:
            return False
        (low, high), (its_low, its_high) = self.span, other.span
        return self.layout.dtype != other.layout.dtype or (low < its_high and its_low < high)


class Turns:
    """The steps of a recording in their order; `places` has every tensor, `codes` has the kernels by digest.

    `numbers` maps the numbers of tensors to those that they have in `steps`; the first `fixed` ones stay as they are.
    """

    def __init__(
        self,
        recorded: Sequence[RecordedStep],
        places: Mapping[int, TensorPlace],
        codes: Mapping[str, KernelCode],
        fixed: int,
    ) -> None:
        self._places, self._codes = places, codes
        self._writes: dict[str, frozenset[int]] = {}
        self._first: dict[int, int] = {}
        for number, place in places.items():
            self._first.setdefault(place.storage, number if place.thread is None else _UNORDERED)
        self._same: dict[int, int] = {}
        self.steps: list[Step] = []
        self.numbers = {number: number for number in range(fixed)}
        self._next = fixed
        if all(item.thread is None for item in recorded):
            self.steps += [item.step for item in recorded]
            self.numbers |= {number: number for number in places}
            return
        ordered = [step for stretch in _stretches(recorded) for step in self._ordered(stretch)]
        for step in ordered:
            self._number(step)
        self._add(places)
        self.steps += [self._renumbered(step) for step in ordered]

    def _ordered(self, stretch: Sequence[RecordedStep]) -> Iterator[Step]:
        """Yield the steps between two that compute in torch: views and allocations, then launches."""
        launches = [item for item in stretch if isinstance(item.step, LaunchStep)]
        if all(item.thread is None for item in stretch):
            yield from (item.step for item in stretch)
            return
        main = [item.step for item in stretch if isinstance(item.step, TorchStep) and item.thread is None]
        own: dict[tuple[int, str], tuple[int, list[int]]] = {}
        for step in main:
            for number in step.results:
                own.setdefault(self._view(number), (number, _used_by(step)))
        others = [item.step for item in stretch if isinstance(item.step, TorchStep) and item.thread is not None]
        for step in others:
            (seen,) = step.results
            number, used = own.get(self._view(seen), (seen, []))
            if number != seen and seen not in used:
                self._same[seen] = number
        left = {item.results[0]: item for item in others if item.results[0] not in self._same}
        for step in main:
            yield from [left.pop(item) for item in dict.fromkeys(_used_by(step)) if item in left]
            yield step
        yield from sorted(left.values(), key=self._sorted_by)
        yield from self._together(launches)

    def _together(self, launches: Sequence[RecordedStep]) -> Iterator[Step]:
        """Join launches that nothing orders: none of them uses what another one may have written."""
        levels: list[list[RecordedStep]] = []
        for launch in launches:
            level = len(levels)
            while level and not any(self._conflict(launch.step, other.step) for other in levels[level - 1]):
                level -= 1
            levels += [[]] if level == len(levels) else []
            levels[level].append(launch)
        for launched in levels:
            steps = [item.step for item in launched if isinstance(item.step, LaunchStep)]
            if len(steps) > 1 and any(item.thread is not None for item in launched):
                yield ParallelStep(launches=tuple(sorted(steps, key=self._sorted_by)))
            else:
                yield from steps

    def _conflict(self, first: Any, second: Any) -> bool:
        """Return whether one of two launches may write what the other one uses, or repeats it.

        Parts of the same kernel may write to the same tensor: which elements, their numbers say.
        """
        if first == second:
            return True
        alike = self._codes[first.code].name == self._codes[second.code].name
        return any(
            (here in self._written(first) or there in self._written(second))
            and not (alike and here == there)
            and self._places[mine].overlaps(self._places[its])
            for here, form in enumerate(first.arguments)
            for mine in numbers_in(form)
            for there, its_form in enumerate(second.arguments)
            for its in numbers_in(its_form)
        )

    def _written(self, launch: LaunchStep) -> frozenset[int]:
        if launch.code not in self._writes:
            self._writes[launch.code] = written_positions(self._codes[launch.code])
        return self._writes[launch.code]

    def _view(self, number: int) -> tuple[int, str]:
        place = self._places[number]
        return place.storage, place.layout.model_dump_json()

    def _sorted_by(self, step: Any) -> str:
        """Return what orders steps of several threads, whatever numbers their tensors were given."""
        if isinstance(step, TorchStep):
            return self._told(step.results)
        return f"{step.code} {[self._told(numbers_in(form)) or form for form in step.arguments]!r}"

    def _told(self, numbers: Iterable[int]) -> str:
        found = [self._places[number] for number in numbers]
        return " ".join(f"{self._first[item.storage]:015d} {item.layout.model_dump_json()}" for item in found)

    def _number(self, step: Step) -> None:
        """Number a step's tensors by their first use."""
        if isinstance(step, TorchStep):
            self._add(_used_by(step))
            self._add(step.results)
            return
        for launch in step.launches if isinstance(step, ParallelStep) else (step,):
            self._add(numbers_in(launch.arguments))

    def _add(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            kept = self._same.get(number, number)
            if kept not in self.numbers:
                self.numbers[kept] = self._next
                self._next += 1
            self.numbers[number] = self.numbers[kept]

    def _renumbered(self, step: Step) -> Step:
        if isinstance(step, ParallelStep):
            return step.model_copy(update={"launches": tuple(map(self._renumbered, step.launches))})
        if isinstance(step, LaunchStep):
            return step.model_copy(update={"arguments": tuple(map(self._form, step.arguments))})
        given = {
            "args": tuple(map(self._form, step.args)),
            "kwargs": {k: self._form(v) for k, v in step.kwargs.items()},
        }
        return step.model_copy(update={**given, "results": tuple(self.numbers[result] for result in step.results)})

    def _form(self, form: Any) -> Any:
        if isinstance(form, list | tuple):
            return [self._form(item) for item in form]
        if not isinstance(form, dict):
            return form
        return {key: self.numbers[value] if key in ("tensor", "descriptor") else value for key, value in form.items()}


def _used_by(step: TorchStep) -> list[int]:
    return numbers_in([step.args, list(step.kwargs.values())])


def _stretches(recorded: Sequence[RecordedStep]) -> Iterator[list[RecordedStep]]:
    """Yield the steps between those that compute in torch, and each of these alone."""
    found: list[RecordedStep] = []
    for item in recorded:
        if isinstance(item.step, TorchStep) and not item.free:
            yield found
            yield [item]
            found = []
        else:
            found.append(item)
    yield found


def written_positions(code: KernelCode) -> frozenset[int]:
    """Return the positions of the arguments that a launch may write to; all where the code is not generated C.

    A parameter counts as read only where it is indexed, or an index is added to it, on the right of an assignment.
    """
    everything = frozenset(range(len(code.parameters)))
    heads = [*re.finditer(rf"\b{re.escape(code.entry)}\s*\(([^)]*)\)\s*\{{", code.text)] if code.kind == "c" else []
    if len(heads) != 1:
        return everything
    names = [(_NAME.findall(part) or [""])[-1] for part in heads[0][1].split(",")]
    if len(names) != len(code.parameters) or len({*names}) != len(names):
        return everything
    body = code.text[heads[0].end() :]
    found = set()
    for statement in _STATEMENT.split(body):
        assignments = [*_ASSIGNMENT.finditer(statement)]
        found |= {*_NAME.findall(statement[: assignments[-1].end()])} if assignments else set()
    return frozenset(at for at, name in enumerate(names) if name in found or _escapes(name, body))


def _escapes(name: str, body: str) -> bool:
    """Return whether a name stands anywhere but before an index: a function could be given its address."""
    uses = len(re.findall(rf"\b{re.escape(name)}\b", body))
    plain = re.findall(rf"(?<![&\w])\(?\b{re.escape(name)}(?:\[|\s\+)", body)
    addresses = re.findall(rf"&\s*\(*\s*{re.escape(name)}\b", body)
    return len(plain) != uses or bool(addresses)
