"""A cycle-level simulator of a software-pipelined loop: issue in order, latencies, resources, versions of buffers.

One iteration of the body executes its steps in order, each for another iteration of the loop: that of the body less
the step's stage. A step starts no earlier than the one before it, waits for the results that it reads, for all readers
of what it overwrites, and for its resources. The simulator also follows which iteration's value each read gets, and so
finds bodies that compute something else. Steps of another role are another program of the same loop: its steps wait for
those of the first, and what overwrites waits for its readers to come, where one program alone would be wrong.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass

SIMULATED = 32
"""Iterations that are simulated; a longer loop goes on at the rate of the second half of these."""


@dataclass(frozen=True)
class SimulatedStep:
    """One statement of the body."""

    name: str
    stage: int
    latency: int
    uses: Mapping[str, tuple[int, ...]]
    """By resource: units in each cycle from its start."""
    versions: int = 1
    """Buffers that its results go to in turn."""
    role: str = ""
    """Steps of one role are issued in order."""

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
class SimulatedLoop:
    """A loop to simulate."""

    steps: tuple[SimulatedStep, ...]
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
class SimulationResult:
    """Result of a simulation."""

    cycles: int
    """Cycles of the whole loop."""
    interval: float
    """Cycles per iteration in the steady state."""
    starts: Mapping[tuple[str, int], int]
    """By step and iteration, for the iterations that were simulated."""
    wrong: str = ""
    """Which read gets another iteration's value; '' where all are right."""


def simulate(loop: SimulatedLoop) -> SimulationResult:
    """Execute the loop. Of a body that reads wrong values the times are those of what it does."""
    running = _Running(loop)
    programs = _programs(loop, running.count)
    now = dict.fromkeys(programs, 0)
    wrong = ""
    while programs:
        # The role whose next step can start first goes on, and takes its resources first.
        begins = {role: running.begin(*todo[0], now[role]) for role, todo in programs.items()}
        ready = [role for role, (_, why) in begins.items() if not why] or [next(iter(programs))]
        role = ready[0] if len(ready) == 1 else min(ready, key=lambda role: begins[role][0])
        now[role], why = begins[role]
        wrong = wrong or why
        step, iteration = programs[role].popleft()
        _occupy(step, now[role], running.taken)
        running.starts[step.name, iteration] = now[role]
        if not programs[role]:
            del programs[role]
    done = {step.name: max(step.latency, step.reading) for step in loop.steps}
    end = max(start + done[name] for (name, _), start in running.starts.items())
    interval = _steady(loop, running.starts, running.count, end)
    return SimulationResult(round(end + (loop.iterations - running.count) * interval), interval, running.starts, wrong)


def _programs(loop: SimulatedLoop, count: int) -> dict[str, deque[tuple[SimulatedStep, int]]]:
    """Return what each role executes, step by step, with the iteration of each."""
    programs: dict[str, deque[tuple[SimulatedStep, int]]] = defaultdict(deque)
    for body in range(count + max(step.stage for step in loop.steps)):
        for step in loop.steps:
            if 0 <= (iteration := body - step.stage) < count:
                programs[step.role].append((step, iteration))
    return dict(programs)


class _Running:
    """State of a simulation: steps that have started, and resources in use."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.count = min(loop.iterations, SIMULATED)
        self.starts: dict[tuple[str, int], int] = {}
        self.taken: dict[tuple[str, int], int] = defaultdict(int)
        self._limits = loop.limits
        self._reading = {step.name: step.reading for step in loop.steps}
        self._incoming: dict[str, list[Wait]] = defaultdict(list)
        self._readers: dict[str, list[Wait]] = defaultdict(list)
        for wait in loop.waits:
            self._incoming[wait.target].append(wait)
            if wait.reads:
                self._readers[wait.source].append(wait)

    def begin(self, step: SimulatedStep, iteration: int, now: int) -> tuple[int, str]:
        """Return the first cycle from `now` on in which all that has started allows a step of this iteration.

        And what has not started that it has to wait for, in words; '' for nothing.
        """
        starts, wrong = self.starts, ""
        for wait in self._incoming[step.name]:
            if (before := iteration - wait.distance) < 0:
                continue
            if (start := starts.get((wait.source, before))) is not None:
                now = max(now, start + wait.latency)
            else:
                wrong = wrong or f"{step.name} runs before the {wait.source} that it waits for"
        overwritten = iteration - step.versions
        for wait in self._readers[step.name]:
            reader = overwritten + wait.distance
            if overwritten < 0 or reader >= self.count:
                continue
            if (start := starts.get((wait.target, reader))) is not None:
                now = max(now, start + self._reading[wait.target])
            elif wait.target != step.name:  # which reads its own last result before it writes the next
                wrong = wrong or f"{step.name} overwrites what {wait.target} still has to read"
        while not _fits(step, now, self.taken, self._limits):
            now += 1
        return now, wrong


def _fits(step: SimulatedStep, now: int, taken: Mapping[tuple[str, int], int], limits: Mapping[str, int]) -> bool:
    return all(
        taken.get((resource, now + offset), 0) + units <= limits[resource]
        for resource, used in step.uses.items()
        for offset, units in enumerate(used)
    )


def _occupy(step: SimulatedStep, now: int, taken: dict[tuple[str, int], int]) -> None:
    for resource, used in step.uses.items():
        for offset, units in enumerate(used):
            taken[resource, now + offset] += units


def _steady(loop: SimulatedLoop, starts: Mapping[tuple[str, int], int], count: int, end: int) -> float:
    """Return cycles per iteration, by the slowest step over the second half."""
    # An even number of iterations: bodies of two buffers often take turns.
    window = count // 2
    if window < 2:
        return end / count
    last = count - 1
    return max((starts[s.name, last] - starts[s.name, last - window]) / window for s in loop.steps)
