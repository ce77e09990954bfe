"""Turns the events of a job into steps, which a client sees as lines with a count."""

from __future__ import annotations

import threading

from ..core import Evaluation
from ..core.events import (
    Event,
    FinalsStarted,
    Note,
    ProposalFailed,
    Proposed,
    SearchStarted,
    StartMeasured,
    Step,
    TrialDone,
    TurnEnded,
    Warned,
)
from .messages import Step as StepMessage
from .messages import Wire


class Steps:
    """Counts what is over, and sends a line for each event that says something to a client."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._lock = threading.Lock()
        self._done = 0
        self._total: int | None = None

    def emit(self, event: Event) -> None:
        """Send an event's line. Of how many trials a run has is not known before."""
        match event:
            case Step(over=True):
                return
            case Step(total=int()) if event.done:
                self._say(f"{event.text} {event.done}/{event.total}: {event.name}", over=1)
            case Step():
                self._total = event.total if event.total is not None else self._total
                self._say(event.text)
            case SearchStarted():
                trials = event.most_trials
                self._total = None if trials is None else trials + 1  # the comparison of the finalists
                self._say(f"tuning: {event.configs or 'very many'} configs, at most {trials or 'all'} trials")
            case TrialDone():
                self._say(_trial(event), over=1)
            case _ if line := _line(event):
                self._say(line)

    def _say(self, text: str, over: int = 0) -> None:
        """Send a line; `over` more steps are done."""
        with self._lock:
            self._done += over
            self._wire.send(StepMessage(done=self._done, total=self._total, text=text))


def _line(event: Event) -> str:
    """Return an event's line; '' for one that says nothing to a client."""
    match event:
        case Note():
            return event.text
        case Warned():
            return f"warning: {event.text}"
        case FinalsStarted():
            return f"measuring {len(event.configs) - 1} finalists and the unchanged kernel, interleaved"
        case StartMeasured():
            return f"start: {_outcome(event.evaluation)}; the roofline's floor is {event.profile.floor_ms:.4g} ms"
        case Proposed(quick=True):
            return f"trying {', '.join(proposal.strategy for proposal in event.proposals)}, one trial each"
        case Proposed():
            return f"trying {event.proposals[0].strategy}: at most {event.trials} configs"
        case ProposalFailed():
            return event.error
        case TurnEnded():
            speedup = event.best.speedup if event.best is not None else None
            gain = f"the fastest so far, {speedup} against the reference" if speedup else "nothing faster"
            return f"turn {event.number}: {event.strategy} ({event.category}): {gain}"
    return ""


def _trial(trial: TrialDone) -> str:
    """Return a trial's result, and the best so far of a search."""
    if not trial.number:
        return f"{trial.origin}: {_outcome(trial.evaluation)}"
    best = trial.best.latency_ms if trial.best else None
    return f"trial {trial.number}: {_outcome(trial.evaluation)}{f'; best {best:.4g} ms' if best else ''}"


def _outcome(evaluation: Evaluation) -> str:
    if evaluation.latency_ms is None:
        return evaluation.status.value.replace("_", " ")
    return f"{evaluation.status.value}, {evaluation.latency_ms:.4g} ms"
