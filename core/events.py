"""What a run tells while it goes on: one stream of frozen events, a function that takes them, and a way to end the run.

Whoever runs something gets `emit`, a function of one event, and tells all that happens with it: there is no other
way. What shows events (a terminal, an MCP client, a test) chooses by their type. Events come from several threads
where several kernels are evaluated at once.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from .budget import Budget
from .evaluation import Evaluation
from .kernel import Kernel
from .profile import Profile
from .proposal import Proposal
from .space import Config, SearchSpace
from .turn_record import SkippedRule, ToolCall


@dataclass(frozen=True)
class Event:
    """The base of all events."""


Emit = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Take an event and do nothing: the `emit` of whoever does not watch."""


@dataclass(frozen=True)
class Note(Event):
    """A remark, one line."""

    text: str


@dataclass(frozen=True)
class Warned(Event):
    """A warning for the user, one line."""

    text: str


@dataclass(frozen=True)
class Step(Event):
    """A piece of work that takes seconds or minutes began, advanced or is over; `text` tells it from others."""

    text: str
    total: int | None = None
    """Parts that it has; None where it has none."""
    done: int = 0
    name: str = ""
    """The part that is done."""
    over: bool = False


@dataclass(frozen=True)
class PartStarted(Event):
    """One of several things begins: a kernel of a batch, an operation of a module, a shape of a sweep."""

    name: str
    number: int = 1
    """Counted from 1."""
    total: int = 1


@dataclass(frozen=True)
class PartDone(Event):
    """A result that is part of a larger one is there; its files are written."""

    result: object
    """What shows it chooses by its type."""
    number: int = 1
    """Counted from 1."""
    total: int = 1
    left_s: float | None = None
    """Estimated seconds for the others."""
    text: str = ""
    """The result in words, where one line says it."""
    failed: bool = False


@dataclass(frozen=True)
class RunStarted(Event):
    """The optimization of a kernel begins."""

    problem: str
    backend: str
    workload: str
    device: str
    target_speedup: float
    against: str
    """What the target is a speedup over, in words."""
    beam: int
    max_iterations: int | None
    by_model: bool
    """Whether a language model proposes."""


@dataclass(frozen=True)
class StartMeasured(Event):
    """The start kernel was evaluated."""

    evaluation: Evaluation
    profile: Profile


@dataclass(frozen=True)
class Analysed(Event):
    """The bottleneck of a lane's kernel was found."""

    lane: str
    """'2.0': the second turn, its first expansion."""
    category: str
    performance: str
    """How fast it is, in words."""
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Proposed(Event):
    """A kernel was proposed, and at most `trials` of its configs will be tried.

    With `quick`, several changes are tried side by side, one trial each, and one for the kernel as it is.
    """

    lane: str
    proposals: tuple[Proposal, ...]
    trials: int
    quick: bool = False


@dataclass(frozen=True)
class RulesSkipped(Event):
    """These rules made no change of the turn's kernel: they do not fit it, or they failed."""

    lane: str
    rules: tuple[SkippedRule, ...]


@dataclass(frozen=True)
class ToolUsed(Event):
    """A model used a tool."""

    lane: str
    call: ToolCall


@dataclass(frozen=True)
class Replying(Event):
    """A model has written this many characters of its reply so far."""

    lane: str
    characters: int


@dataclass(frozen=True)
class ProposalFailed(Event):
    """A proposal failed, or there is none."""

    lane: str
    error: str


@dataclass(frozen=True)
class TurnEnded(Event):
    """A turn is over and recorded."""

    number: int
    lane: str
    strategy: str
    category: str
    """Of the bottleneck that it was aimed at."""
    gains: tuple[tuple[str, float | None], ...]
    """Of each change that was tried beside others: its strategy and its speedup over the turn's kernel."""
    best: Evaluation | None
    """The turn's fastest kernel where it became the best of the run."""
    before: Kernel
    after: Kernel | None
    """The proposed kernel with the best config; None without one."""
    cost: Mapping[str, float] = field(default_factory=dict)
    """Exchanges with models, their tokens, dollars and seconds; empty where rules propose."""


@dataclass(frozen=True)
class SearchStarted(Event):
    """The search of a space begins."""

    name: str
    origin: str
    """Where the space comes from: given, declared, inferred."""
    space: SearchSpace
    """What the device leaves of the space."""
    configs: int | None
    """In `space`; None when they are too many to count."""
    ruled_out: int | None
    """By the device; None when they are too many to count."""
    rules: tuple[str, ...]
    """Constraints of the device."""
    budget: Budget

    @property
    def most_trials(self) -> int | None:
        """The most trials of the search; None where neither the space nor the budget limits them."""
        return min((n for n in (self.budget.trials, self.configs) if n), default=None)


@dataclass(frozen=True)
class TrialDone(Event):
    """A config was evaluated."""

    origin: str
    """What it was evaluated for: 'search', 'turn 1: change-tiles'."""
    evaluation: Evaluation
    number: int = 0
    """Trials so far; the other counts are those of the same search, too."""
    failed: int = 0
    duplicates: int = 0
    """Trials whose code had been measured under another config."""
    seconds: float = 0.0
    best: Evaluation | None = None


@dataclass(frozen=True)
class FinalsStarted(Event):
    """The finalists are measured, interleaved with what they started from."""

    configs: tuple[Config, ...]
    combined: bool = False
    """Whether they combine the finalists of several searches."""


@dataclass(frozen=True)
class Finished(Event):
    """A run or a search is over, however it ended."""


class RunCancelledError(Exception):
    """The run was cancelled; whoever cancelled it knows why."""


class CancelToken:
    """Ends what runs in other threads: they ask it between two steps."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """End what asks from now on."""
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._cancelled.is_set()

    def check(self) -> None:
        """Raise `RunCancelledError` where it was cancelled."""
        if self.cancelled:
            raise RunCancelledError


def notes(emit: Emit) -> Callable[[str], None]:
    """Return a function that tells a text as a remark."""
    return lambda text: emit(Note(text))


@contextlib.contextmanager
def working(emit: Emit, text: str) -> Iterator[None]:
    """Tell that something runs that has no parts."""
    emit(Step(text))
    try:
        yield
    finally:
        emit(Step(text, over=True))


@contextlib.contextmanager
def progress(emit: Emit, text: str, total: int) -> Iterator[Callable[[str], None]]:
    """Tell how far `total` parts are: what it yields is called after each one with its name."""
    done = 0

    def advance(name: str) -> None:
        nonlocal done
        done += 1
        emit(Step(text, total, done, name))

    emit(Step(text, total))
    try:
        yield advance
    finally:
        emit(Step(text, total, done, over=True))
