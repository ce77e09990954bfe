"""The observers of `api` that turn what happens into steps."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..api.observers import Observer, RunObserver, SearchObserver
from .messages import Step, Wire

if TYPE_CHECKING:
    from ..agent.turn import Turn
    from ..core import Budget, Config, Evaluation, Profile, Proposal, SearchSpace
    from ..tuners.discovery import FoundSpace
    from ..tuners.search import Progress


class StepObserver(Observer):
    """Counts what is over, and sends each step."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._lock = threading.Lock()
        self._done = 0
        self._total: int | None = None

    def say(self, text: str, over: int = 0) -> None:
        """Send a line; `over` more steps are done."""
        with self._lock:
            self._done += over
            self._wire.send(Step(done=self._done, total=self._total, text=text))

    def note(self, text: str) -> None:
        """A remark."""
        self.say(text)

    def warn(self, text: str) -> None:
        """A warning."""
        self.say(f"warning: {text}")

    @contextlib.contextmanager
    def working(self, text: str) -> Iterator[None]:
        """One line."""
        self.say(text)
        yield

    @contextlib.contextmanager
    def progress(self, text: str, total: int) -> Iterator[Callable[[str], None]]:
        """A line for each step."""
        self._total = total
        self.say(text)
        yield lambda name: self.say(f"{text} {self._done + 1}/{total}: {name}", over=1)


class TuneSteps(StepObserver, SearchObserver):
    """A step for each trial."""

    def search_started(
        self, name: str, found: FoundSpace, space: SearchSpace, rules: Sequence[str], budget: Budget
    ) -> None:
        """The number of trials, as far as it is known."""
        from ..api.tuned import count  # it imports all tuners

        configs = count(space)
        trials = min([n for n in (budget.trials, configs) if n], default=None)
        self._total = None if trials is None else trials + 1  # the comparison of the finalists
        self.say(f"tuning: {configs or 'very many'} configs, at most {trials or 'all'} trials")

    def trial(self, evaluation: Evaluation, progress: Progress) -> None:
        """The result of the trial, and the best so far."""
        best = progress.best.latency_ms if progress.best else None
        so_far = f"; best {best:.4g} ms" if best else ""
        self.say(f"trial {progress.trials}: {_outcome(evaluation)}{so_far}", over=1)

    def finals(self, configs: Sequence[Config]) -> None:
        """The last comparison begins."""
        self.say(f"measuring {len(configs) - 1} finalists and the unchanged kernel, interleaved")


class OptimizeSteps(StepObserver, RunObserver):
    """A step for each trial; of how many is not known before."""

    def started(self, start: Evaluation, profile: Profile) -> None:
        """The start kernel was measured."""
        self.say(f"start: {_outcome(start)}; the roofline's floor is {profile.floor_ms:.4g} ms")

    def proposed(self, lane: str, proposal: Proposal, trials: int) -> None:
        """A change is about to be measured."""
        self.say(f"trying {proposal.strategy}: at most {trials} configs")

    def screening(self, lane: str, proposals: Sequence[Proposal]) -> None:
        """Changes are about to be measured side by side."""
        self.say(f"trying {', '.join(one.strategy for one in proposals)}, one trial each")

    def trial(self, origin: str, evaluation: Evaluation) -> None:
        """The result of a trial."""
        self.say(f"{origin}: {_outcome(evaluation)}", over=1)

    def failed(self, lane: str, error: str) -> None:
        """No proposal."""
        self.say(error)

    def turn_ended(self, turn: Turn) -> None:
        """What the turn brought."""
        speedup = turn.found.evaluation.speedup if turn.found is not None and turn.improved else None
        gain = f"the fastest so far, {speedup} against the reference" if speedup else "nothing faster"
        self.say(f"turn {turn.number}: {turn.strategy} ({turn.analysis.category}): {gain}")


def _outcome(evaluation: Evaluation) -> str:
    if evaluation.latency_ms is None:
        return evaluation.status.value.replace("_", " ")
    return f"{evaluation.status.value}, {evaluation.latency_ms:.4g} ms"
