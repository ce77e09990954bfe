"""Progress of a run: a stream of frozen events, functions that take them, and a token that cancels the run.

Code that runs something gets `emit`, a function of one event, and reports everything through it. What shows events
(a terminal, an MCP client, a test) matches their types. Events come from several threads if several kernels are
evaluated at once.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from .budget import Budget
from .evaluation import Evaluation
from .kernel import Kernel
from .profile import Profile
from .proposal import Proposal
from .space import Config, SearchSpace
from .turn_record import SkippedRule, ToolCall

SEARCHED = "search"
"""The origin of a search's trials, in events and in journals."""


@dataclass(frozen=True)
class Event:
    """The base of all events."""


Emit = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Discard an event: the `emit` of callers that do not watch."""


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
    """Work of seconds or minutes started, advanced or ended. `text` identifies it."""

    text: str
    total: int | None = None
    """Number of parts; None if it has none."""
    done: int = 0
    name: str = ""
    """The part that was completed."""
    over: bool = False


@dataclass(frozen=True)
class PartStarted(Event):
    """One of several parts starts: a kernel of a batch, an operation of a module, a shape of a sweep."""

    name: str
    number: int = 1
    """Counted from 1."""
    total: int = 1


class Mark(Enum):
    """Outcome of a part, which determines its colour."""

    GOOD = "good"
    DOUBTFUL = "doubtful"
    FAILED = "failed"


@dataclass(frozen=True)
class PartDone(Event):
    """A partial result is complete, and its files are written."""

    result: object
    """Renderers choose by its type."""
    number: int = 1
    """Counted from 1."""
    total: int = 1
    left_s: float | None = None
    """Estimated seconds for the remaining parts."""
    text: str = ""
    """The result as one line of text, if one line suffices."""
    failed: bool = False
    """Whether the part failed, so that its line is an error."""
    name: str = ""
    """Label before the text, in the colour of `mark`."""
    mark: Mark | None = None


@dataclass(frozen=True)
class RunStarted(Event):
    """The optimization of a kernel starts."""

    problem: str
    backend: str
    workload: str
    device: str
    target_speedup: float | None
    """None if the run has no target."""
    against: str
    """Description of the baseline of the target speedup."""
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
    """Description of how fast it is."""
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Proposed(Event):
    """A kernel was proposed, and at most `trials` of its configs will be tried.

    With `quick`, several changes are tried in one turn, with one trial each and one for the unmodified kernel.
    """

    lane: str
    proposals: tuple[Proposal, ...]
    trials: int
    quick: bool = False


@dataclass(frozen=True)
class RulesSkipped(Event):
    """These rules did not change the turn's kernel: they do not apply, or they failed."""

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
    """A proposal failed, or none was made."""

    lane: str
    error: str


@dataclass(frozen=True)
class TurnEnded(Event):
    """A turn ended and was recorded."""

    number: int
    lane: str
    strategy: str
    category: str
    """Category of the targeted bottleneck."""
    gains: tuple[tuple[str, float | None], ...]
    """Strategy and speedup over the turn's kernel, for each change of a batch."""
    best: Evaluation | None
    """The turn's fastest kernel, if it became the best of the run."""
    before: Kernel
    after: Kernel | None
    """The proposed kernel with its best config; None without a proposal."""
    cost: Mapping[str, float] = field(default_factory=dict)
    """Exchanges with models, and their tokens, dollars and seconds; empty if rules propose."""


@dataclass(frozen=True)
class SearchStarted(Event):
    """The search of a space starts."""

    name: str
    origin: str
    """Origin of the space: given, declared or inferred."""
    space: SearchSpace
    """The space without configs that the device rules out."""
    configs: int | None
    """Number of configs in `space`; None if they are too many to count."""
    ruled_out: int | None
    """Number of configs that the device rules out; None if they are too many to count."""
    rules: tuple[str, ...]
    """Constraints of the device."""
    budget: Budget

    @property
    def most_trials(self) -> int | None:
        """Maximum number of trials; None if neither the space nor the budget limits them."""
        return min((n for n in (self.budget.trials, self.configs) if n), default=None)


@dataclass(frozen=True)
class TrialDone(Event):
    """A config was evaluated."""

    origin: str
    """Purpose of the evaluation: 'search', 'turn 1: change-tiles'."""
    evaluation: Evaluation
    number: int = 0
    """Number of trials so far. The other counts are of the same search."""
    failed: int = 0
    duplicates: int = 0
    """Trials whose code was already measured under another config."""
    seconds: float = 0.0
    best: Evaluation | None = None
    most_trials: int | None = None
    """Limit of the search's trials; None if there is none."""
    limit_s: float | None = None
    """Limit of the search's seconds; None if there is none."""

    @property
    def left_s(self) -> float | None:
        """Estimated seconds until trials or time run out, whichever is first; None if nothing limits them."""
        each = self.seconds / self.number if self.number else 0.0  # both count what an earlier run has done
        by_trials = (self.most_trials - self.number) * each if self.most_trials else None
        by_time = self.limit_s - self.seconds if self.limit_s else None
        return min((max(0.0, left) for left in (by_trials, by_time) if left is not None), default=None)


@dataclass(frozen=True)
class FinalsStarted(Event):
    """The finalists are measured, interleaved with their start."""

    configs: tuple[Config, ...]
    combined: bool = False
    """Whether the finalists of several searches are combined."""


@dataclass(frozen=True)
class Finished(Event):
    """A run or a search ended, in whatever way."""


class RunCancelledError(Exception):
    """The run was cancelled by its caller."""


class CancelToken:
    """Cancels work in other threads, which check it between steps."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Cancel all work that checks this token."""
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._cancelled.is_set()

    def check(self) -> None:
        """Raise `RunCancelledError` if the token was cancelled."""
        if self.cancelled:
            raise RunCancelledError


def notes(emit: Emit) -> Callable[[str], None]:
    """Return a function that emits a text as a `Note`."""
    return lambda text: emit(Note(text))


@contextlib.contextmanager
def working(emit: Emit, text: str) -> Iterator[None]:
    """Report work without parts."""
    emit(Step(text))
    try:
        yield
    finally:
        emit(Step(text, over=True))


@contextlib.contextmanager
def progress(emit: Emit, text: str, total: int) -> Iterator[Callable[[str], None]]:
    """Report work of `total` parts. Call the yielded function with the name of each part when it is done."""
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
