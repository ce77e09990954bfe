"""A search by the launch: a tuner for each group of parameters, which learns from the times of its launches alone."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ...core import Config, Evaluation, SearchSpace, Tuner
from .groups import LaunchGroup, described

UNTIMED = 3
"""Successes in a row without the times of launches, after which the whole space is searched jointly."""
WORTH = 0.98
"""The fastest parts are tried together if their times add up to less than this share of the best trial's."""
APART = 3
"""Trials between two that try the fastest parts together."""
TOGETHER = 1.03
"""Launches interact if the fastest parts together take this much longer than the sum of their own times."""
EXPECTED_FAILURES = 1.0, 8.0
"""Failed parts, and parts, that count before the first."""

MakeTuner = Callable[[SearchSpace, int], Tuner]


@dataclass(eq=False)
class _Searched:
    """A group and the results of its parts."""

    group: LaunchGroup
    tuner: Tuner
    start: Config
    times: dict[Config, list[float]] = field(default_factory=dict)
    failed: set[Config] = field(default_factory=set)
    asked: int = 0
    exhausted: bool = False

    @property
    def best(self) -> Config | None:
        """The fastest part. One that was measured several times has its median."""
        return min(self.times, key=self.ms, default=None)

    def ms(self, part: Config) -> float:
        """Return the time of the group's launches with a part."""
        return statistics.median(self.times[part])

    def own_ms(self, evaluation: Evaluation) -> float | None:
        """Return the time of the group's launches in a trial; None if none was timed."""
        own = [evaluation.launches_ms[name] for name in self.group.launches if name in evaluation.launches_ms]
        return sum(own) if own and sum(own) > 0 else None

    def succeed(self, part: Config, ms: float) -> None:
        """Learn a time. The tuner learns the first."""
        if part not in self.times:
            self.tuner.tell(part, Evaluation.recorded(part, ms))
        self.failed.discard(part)
        self.times.setdefault(part, []).append(ms)

    def fail(self, part: Config) -> None:
        """Learn that a part fails."""
        self.failed.add(part)
        self.tuner.tell(part, Evaluation.recorded(part, None))

    def is_open(self, part: Config) -> bool:
        """Return whether it is not known if a part works."""
        return part not in self.times and part not in self.failed

    def next(self) -> Config | None:
        """Return another part to try."""
        while found := self.tuner.ask(1):
            if self.is_open(found[0]):
                self.asked += 1
                return found[0]
        self.exhausted = True
        return None

    @property
    def urgency(self) -> float:
        """The value of another trial, by the time of its launches and the unexplored part of its space."""
        known = len(self.times) + len(self.failed)
        left = max(0.0, 1 - known / self.group.space.cardinality)
        return (self.ms(self.best) if self.best is not None else 1.0) * left / (1 + self.asked)


Part = tuple[_Searched, Config]


class ByLaunch:
    """Asks for whole configs in which several groups try another part at once, and tells each the time of its launches.

    Other groups have the fastest parts so far. A failed trial does not show which part is the cause, so its parts are
    then tried one by one; the more parts fail, the fewer are tried at once. From time to time the fastest parts are
    tried together. Once all groups are exhausted, or if the times of launches are unknown, the tuner of the whole space
    continues, which has learned from all trials.
    """

    def __init__(
        self, space: SearchSpace, groups: Sequence[tuple[LaunchGroup, Tuner]], whole: Tuner, first: Config
    ) -> None:
        self._space = space
        self._whole = whole
        self._groups = [_Searched(group, tuner, group.part(first)) for group, tuner in groups]
        self._asked: set[Config] = set()
        self._wholes: dict[Config, float] = {}
        self._others_ms: list[float] = []
        """Other times of a call: launches without parameters, torch's operators, the host."""
        self._suspects: list[list[Part]] = []
        """The parts of each failed trial, while the failing part is unknown."""
        self._alone: set[tuple[int, Config]] = set()
        """Suspects that were tried with others that work, by their group's place."""
        self._clash = False
        self._untimed = 0
        self._since_together = 0

    def __str__(self) -> str:
        return described([item.group for item in self._groups])

    def ask(self, n: int = 1) -> list[Config]:
        """Return up to n new configs; empty if the space is exhausted."""
        asked: list[Config] = []
        while len(asked) < n and (config := self._next()) is not None:
            self._asked.add(config)
            asked.append(config)
        return asked

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        """Learn the times of a config's launches, or that it fails."""
        if config not in self._space:
            return
        self._asked.add(config)
        self._whole.tell(config, evaluation)
        parts = [(item, item.group.part(config)) for item in self._groups]
        if evaluation.correct:
            self._succeed(config, parts, evaluation)
        else:
            self._clash |= config == self.together()
            self._suspects.append(parts)
        self._resolve()

    def _succeed(self, config: Config, parts: Sequence[Part], evaluation: Evaluation) -> None:
        own_ms = [ms for item, _ in parts if (ms := item.own_ms(evaluation)) is not None]
        if evaluation.latency_ms is None or len(own_ms) < len(parts):
            self._untimed += 1
            return
        self._untimed = 0
        self._wholes.setdefault(config, evaluation.latency_ms)
        self._others_ms.append(evaluation.latency_ms - sum(own_ms))
        for (item, part), ms in zip(parts, own_ms, strict=True):
            item.succeed(part, ms)

    def together(self) -> Config | None:
        """Return the fastest parts of all groups as one config; None before each has one."""
        parts = [item.best for item in self._groups]
        return self._joined([part for part in parts if part is not None]) if None not in parts else None

    def remark(self, finals: Sequence[Evaluation]) -> str:
        """Return a remark if a final comparison shows that launches slow each other down, otherwise ''."""
        best = self.together()
        ended = {Config(final.config): final for final in finals if final.config}
        others = [config for config in ended if config != best and ended[config].latency_ms and self._expected(config)]
        if best is None or best not in ended or not others:
            return ""
        found = ended[best]
        if found.latency_ms is None:
            return f"the fastest parameters of each launch do not work together: {found.message}"
        # Finalists are timed otherwise than trials, so only ratios compare.
        scale = statistics.median((ended[item].latency_ms or 0.0) / (self._expected(item) or 1.0) for item in others)
        longer = found.latency_ms / (scale * (self._expected(best) or 1.0))
        if longer < TOGETHER:
            return ""
        return f"the launches interact: the fastest parameters of each take {longer - 1:.0%} longer together than apart"

    def _expected(self, config: Config) -> float | None:
        """Return the sum of a config's parts' times; None if one is unknown."""
        parts = [(item, item.group.part(config)) for item in self._groups]
        if not self._others_ms or any(part not in item.times for item, part in parts):
            return None
        return max(0.0, statistics.median(self._others_ms)) + sum(item.ms(part) for item, part in parts)

    def _next(self) -> Config | None:
        if self._untimed < UNTIMED:
            for config in self._proposals():
                if config not in self._asked:
                    return config
        while found := self._whole.ask(1):
            if found[0] not in self._asked:
                return found[0]
        return None

    def _proposals(self) -> Iterator[Config]:
        """Yield what to try next, the most urgent first, until no group has any part left."""
        yield from self._one_by_one()
        self._since_together += 1
        if self._since_together > APART and self._is_worth_trying_together():
            self._since_together = 0
            yield from filter(None, [self.together()])
        while open_ := [item for item in self._groups if not item.exhausted]:
            open_.sort(key=lambda item: -item.urgency)
            moved = [(item, part) for item in open_[: self._at_once(len(open_))] if (part := item.next()) is not None]
            if moved:
                yield self._joined([part for _, part in moved])
        if self._is_worth_trying_together(1.0):
            yield from filter(None, [self.together()])

    def _one_by_one(self) -> Iterator[Config]:
        """Yield parts that may have made a trial fail, each with others that work."""
        if self._base() is None:
            return
        for item, part in [suspect for parts in self._suspects for suspect in parts if suspect[0].is_open(suspect[1])]:
            tried = self._groups.index(item), part
            if tried not in self._alone:
                self._alone.add(tried)
                yield self._joined([part])

    def _is_worth_trying_together(self, share: float = WORTH) -> bool:
        best = self.together()
        if best is None or best in self._asked or not self._wholes:
            return False
        return (self._expected(best) or 0.0) < share * min(self._wholes.values())

    def _at_once(self, most: int) -> int:
        """Return how many parts to try in one trial, for the fewest trials per part.

        This is Dorfman's group testing: m parts take one trial, and m more if any of them fails.
        """
        failed, tried = EXPECTED_FAILURES
        failed += sum(len(item.failed) for item in self._groups)
        tried += sum(len(item.failed) + len(item.times) for item in self._groups)
        works = 1 - failed / tried
        return min(range(1, most + 1), key=lambda m: 1 / m + (1 - works**m if m > 1 else 0.0))

    def _base(self) -> Config | None:
        """Return a config that works: the fastest parts, or the fastest trial where these do not work together."""
        if self._clash:
            return min(self._wholes, key=self._wholes.__getitem__)
        return self.together()

    def _joined(self, parts: Sequence[Config]) -> Config:
        """Return a whole config with some parts, the others as they are in what works."""
        base = self._base() if len(parts) < len(self._groups) else None
        values = dict(base) if base is not None else {n: v for item in self._groups for n, v in item.start.items()}
        for part in parts:
            values |= part
        return Config((name, values[name]) for name in self._space.names)

    def _resolve(self) -> None:
        """Clear parts that work in another trial; the only remaining part of a failed trial counts as failed."""
        before = -1
        while before != (before := sum(len(item.failed) for item in self._groups)):
            for parts in self._suspects:
                left = [(item, part) for item, part in parts if item.is_open(part)]
                if len(left) == 1 and not any(part in item.failed for item, part in parts) and self._base() is not None:
                    left[0][0].fail(left[0][1])
        self._suspects = [parts for parts in self._suspects if any(item.is_open(part) for item, part in parts)]
