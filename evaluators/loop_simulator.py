"""A cycle-level simulator of a software-pipelined loop: issue in order, latencies, resources, versions of buffers.

One iteration of the body executes its steps in order, each for another iteration of the loop: that of the body less
the step's stage. A step starts no earlier than the one before it, waits for the results that it reads, for all readers
of what it overwrites, and for its resources. The simulator also follows which iteration's value each read gets, and so
finds bodies that compute something else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

SIMULATED = 32
"""Iterations that are simulated; a longer loop goes on at the rate of the second half of these."""


@dataclass(frozen=True)
class Step:
    """One statement of the body."""

    name: str
    stage: int
    latency: int
    uses: Mapping[str, tuple[int, ...]]
    """By resource: units in each cycle from its start."""
    versions: int = 1
    """Buffers that its results go to in turn."""

    @property
    def reading(self) -> int:
        """Cycles until it has read its inputs: as long as it occupies resources."""
        return max(map(len, self.uses.values()), default=1)


@dataclass(frozen=True)
class Wait:
    """A step waits for another one of `distance` iterations before, and reads its result if it `reads`."""

    source: str
    target: str
    latency: int
    distance: int
    reads: bool


@dataclass(frozen=True)
class Loop:
    """What is simulated."""

    steps: tuple[Step, ...]
    """In the order of the body."""
    waits: tuple[Wait, ...]
    limits: Mapping[str, int]
    iterations: int
    cycle_us: float = 1e-3
    """Microseconds of one cycle of the model."""
    rounds: float = 1.0
    """How many times in a row each multiprocessor executes the loop."""
    overhead: int = 0
    """Cycles of each round outside the loop."""


@dataclass(frozen=True)
class Run:
    """What the simulation found."""

    cycles: int
    """Of the whole loop."""
    interval: float
    """Cycles per iteration in the steady state."""
    starts: Mapping[tuple[str, int], int]
    """By step and iteration, for the iterations that were simulated."""
    wrong: str = ""
    """Which read gets another iteration's value; '' where all are right."""


def simulate(loop: Loop) -> Run:
    """Execute the loop. Of a body that reads wrong values the times are those of what it does."""
    count = min(loop.iterations, SIMULATED)
    incoming: dict[str, list[Wait]] = defaultdict(list)
    readers: dict[str, list[Wait]] = defaultdict(list)
    for wait in loop.waits:
        incoming[wait.target].append(wait)
        if wait.reads:
            readers[wait.source].append(wait)
    reading = {step.name: step.reading for step in loop.steps}
    done = {step.name: max(step.latency, step.reading) for step in loop.steps}
    starts: dict[tuple[str, int], int] = {}
    taken: dict[tuple[str, int], int] = defaultdict(int)
    wrong, now = "", 0
    for body in range(count + max(step.stage for step in loop.steps)):
        for step in loop.steps:
            iteration = body - step.stage
            if not 0 <= iteration < count:
                continue
            for wait in incoming[step.name]:
                if (before := iteration - wait.distance) < 0:
                    continue
                if (wait.source, before) in starts:
                    now = max(now, starts[wait.source, before] + wait.latency)
                else:
                    wrong = wrong or f"{step.name} runs before the {wait.source} that it waits for"
            overwritten = iteration - step.versions
            for wait in readers[step.name]:
                reader = overwritten + wait.distance
                if overwritten < 0 or reader >= count:
                    continue
                if (wait.target, reader) in starts:
                    now = max(now, starts[wait.target, reader] + reading[wait.target])
                elif wait.target != step.name:  # which reads its own last result before it writes the next
                    wrong = wrong or f"{step.name} overwrites what {wait.target} still has to read"
            while not _fits(step, now, taken, loop.limits):
                now += 1
            _occupy(step, now, taken)
            starts[step.name, iteration] = now
    end = max(start + done[name] for (name, _), start in starts.items())
    interval = _steady(loop, starts, count, end)
    return Run(round(end + (loop.iterations - count) * interval), interval, starts, wrong)


def _fits(step: Step, now: int, taken: Mapping[tuple[str, int], int], limits: Mapping[str, int]) -> bool:
    return all(
        taken.get((resource, now + offset), 0) + units <= limits[resource]
        for resource, used in step.uses.items()
        for offset, units in enumerate(used)
    )


def _occupy(step: Step, now: int, taken: dict[tuple[str, int], int]) -> None:
    for resource, used in step.uses.items():
        for offset, units in enumerate(used):
            taken[resource, now + offset] += units


def _steady(loop: Loop, starts: Mapping[tuple[str, int], int], count: int, end: int) -> float:
    """Return cycles per iteration, by the slowest step over the second half."""
    # An even number of iterations: bodies of two buffers often take turns.
    window = count // 2
    if window < 2:
        return end / count
    last = count - 1
    return max((starts[s.name, last] - starts[s.name, last - window]) / window for s in loop.steps)
