"""Several searches of one kernel in turns, over one evaluator: what one has measured is known to all."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping

from kernelwright.core import Config, Evaluation, Evaluator, Journal, Kernel, Problem, Trial, Tuner

Observe = Callable[[str, Evaluation], None]
"""Gets each trial, with its search's name."""


class SideBySide:
    """Searches by tuners of the same kernel, at equal budget: to compare tuners at the price of fewer measurements.

    The searches ask in turns, so that a time limit leaves all with about as many trials, and so many configs are under
    way at once that compilers are busy although each search waits for its own. What another search has asked for is
    not measured again: both get the same evaluation, and it is a trial of each. Configs are the same if `key` gives the
    same for both, as for schedules of equal code.

    The journal has each trial under the name of its search; what is in it already is recalled, and not measured again.
    """

    def __init__(
        self,
        tuners: Mapping[str, Tuner],
        trials: int,
        journal: Journal,
        observe: Observe,
        key: Callable[[Config], Hashable] = lambda config: config,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.trials: dict[str, list[Evaluation]] = {name: [] for name in tuners}
        """By search, in order."""
        self._tuners = tuners
        self._most = trials
        self._journal = journal
        self._observe = observe
        self._key = key
        self._clock = clock
        self._asked = dict.fromkeys(tuners, 0)
        self._known: dict[Hashable, Evaluation] = {}
        self._waiting: dict[Hashable, list[tuple[str, Config]]] = {}
        self._turns = deque(tuners)
        for trial in journal.of(Trial):
            config = Config(trial.evaluation.config)
            self._known.setdefault(key(config), trial.evaluation)
            if trial.origin in tuners:
                tuners[trial.origin].tell(config, trial.evaluation)
                self._asked[trial.origin] += 1
                self.trials[trial.origin].append(trial.evaluation)

    @property
    def measured(self) -> int:
        """Configs that were evaluated, each once."""
        return len(self._known)

    def run(self, evaluator: Evaluator, problem: Problem, kernel: Kernel, until: float | None = None) -> None:
        """Search until every budget is used up, or the clock shows `until`."""
        last = self._clock()
        known = tuple(self._known.values())
        with contextlib.closing(evaluator.evaluate(problem, kernel, self._ask(), known)) as evaluations:
            for evaluation in evaluations:
                key, now = self._key(Config(evaluation.config)), self._clock()
                self._known[key] = evaluation
                for place, (name, config) in enumerate(self._waiting.pop(key)):
                    self._tell(name, config, evaluation, 0.0 if place else now - last)
                last = now
                if until is not None and now >= until:
                    break

    def _ask(self) -> Iterator[Config]:
        """Yield configs that no search has asked for before; the searches draw in turns."""
        while self._turns:
            name = self._turns[0]
            configs = self._tuners[name].ask(1) if self._asked[name] < self._most else []
            if not configs:
                self._turns.popleft()
                continue
            self._turns.rotate(-1)
            self._asked[name] += 1
            (config,) = configs
            if (found := self._known.get(key := self._key(config))) is not None:
                self._tell(name, config, found, 0.0)
            elif key in self._waiting:
                self._waiting[key].append((name, config))
            else:
                self._waiting[key] = [(name, config)]
                yield config

    def _tell(self, name: str, config: Config, evaluation: Evaluation, seconds: float) -> None:
        if evaluation.config != dict(config):
            first = evaluation.duplicate_of or evaluation.config
            evaluation = evaluation.model_copy(update={"config": dict(config), "duplicate_of": first})
        self._journal.append(Trial.now(name, evaluation, max(0.0, seconds)))
        self._tuners[name].tell(config, evaluation)
        self.trials[name].append(evaluation)
        self._observe(name, evaluation)
