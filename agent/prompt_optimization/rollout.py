"""One trial of instructions: analyse, rewrite and repair a recorded kernel with them, and measure the result."""

from __future__ import annotations

import contextvars
import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import dspy

from ...core import Config, OptionError, Retriever
from ...core.events import Emit
from ..bottleneck import Analysis, Category, analyse
from ..lane import Lane
from ..models.models import Models
from ..program.proposer import ModelProposer, SkippedRules, no_rules
from ..program.signatures import KernelProgram
from ..program.toolbox import Toolbox
from ..proposer import NoKernelError, RunEndedError, TurnContext
from ..turn import Attempt, Candidate
from ..workbench import Workbench
from .outcome import ANALYSE, REPAIR, REWRITE, Rollout, Try
from .recorded import RecordedTurn

Result = TypeVar("Result")


MAX_REPEATS = 2
"""Further measurements of a kernel to improve, while other processes disturb them: every gain depends on it."""


class TrialsEndedError(BaseException):
    """The trials end here; no `Exception`, which GEPA would take for an answer that scores nothing."""


class Rollouts:
    """Makes rollouts. The same instructions in the same context are tried once: what they came to is remembered.

    A resumed compile asks nothing twice: each conversation has a lane of its own, named by what it is asked with.
    """

    def __init__(
        self,
        models: Models,
        workbench: Callable[[RecordedTurn], Workbench],
        emit: Emit,
        retriever: Retriever | None,
        rag_k: int,
        tell: Callable[[str], None],
        skipped_rules: SkippedRules = no_rules,
    ) -> None:
        self._models = models
        self._workbench = workbench
        self._emit = emit
        self._retriever = retriever
        self._rag_k = rag_k
        self._tell = tell
        self._skipped_rules = skipped_rules
        self._memory: dict[str, tuple[Any, list[Any]]] = {}
        self._begun: dict[str, tuple[RecordedTurn, Candidate]] = {}
        self.given_up = threading.Event()
        self.ended = ""
        """Why no more can be tried, in words."""
        self.error: Exception | None = None
        """A failure that is not an answer of a model."""

    def __deepcopy__(self, memo: Any) -> Rollouts:
        """Return this object: GEPA copies its program for each candidate, which must share it."""
        return self

    def begin(self, recorded: RecordedTurn) -> str | None:
        """Measure the kernel to improve, with which gains are compared; why it cannot serve, or None."""
        workbench = self._workbench(recorded)
        start = workbench.evaluate(recorded.kernel, Config(), "start")
        for _ in range(MAX_REPEATS):
            if start.contention is None:
                break
            start = workbench.evaluate(recorded.kernel, Config(), "start", again=True)
        if start.speedup is None:
            return start.message or "not timed"
        self._begun[recorded.name] = recorded, Candidate(recorded.kernel, start)
        return None

    def begin_all(self, situations: Sequence[RecordedTurn]) -> list[RecordedTurn]:
        """Return the situations with a kernel that is correct and timed here. Raises `OptionError` if there is none."""
        begun = []
        for situation in situations:
            if (why := self.begin(situation)) is None:
                begun.append(situation)
            else:
                self._tell(f"left out: {situation.name}: {why}")
        if begun:
            return begun
        raise OptionError("none of the recorded kernels is correct and timed on this device: there is no training data")

    def program(self) -> KernelProgram:
        """The program with the instructions that it has, which name its tools; any begun context has the same."""
        recorded, candidate = next(iter(self._begun.values()))
        metrics = analyse(recorded.profile, recorded.kernel, candidate.evaluation)
        lane = _NamedLane(self._workbench(recorded), 1, "")
        context = TurnContext(recorded.problem, recorded.profile, candidate, metrics, (), lane)
        offered = KernelProgram(*recorded.kind, Toolbox(context, self._retriever, lambda call: None))
        program = KernelProgram(*recorded.kind)
        program.load_state(offered.dump_state())
        return program

    def run(self, state: Mapping[str, Any], name: str) -> Rollout:
        """Try a program's instructions in a context. Raises `TrialsEndedError` when no more can be tried."""
        return self.guarded(lambda: self._run(state, name))

    def guarded(self, work: Callable[[], Result]) -> Result:
        """Work for which models are asked: whatever ends it ends everything."""

        def outcome() -> Result | None:
            try:
                return work()
            except RunEndedError as error:
                self.ended = str(error)
            except Exception as error:  # GEPA would take it for a score of 0
                self.error = error
            return None

        if self.error is not None or self.ended:
            raise TrialsEndedError
        found = in_daemon(outcome, self.given_up)
        if found is None:
            raise TrialsEndedError
        return found

    def _run(self, state: Mapping[str, Any], name: str) -> Rollout:
        recorded, candidate = self._begun[name]
        proposer = ModelProposer(
            self._models, self._emit, self._retriever, self._rag_k, dict(state), self._skipped_rules
        )
        metrics = analyse(recorded.profile, recorded.kernel, candidate.evaluation, _failed(recorded))
        asked = len(self._memory)

        def context(analysis: Analysis, *parts: str) -> TurnContext:
            lane = _NamedLane(self._workbench(recorded), len(recorded.turns) + 1, f"{name} {_digest(state, parts)}")
            return TurnContext(recorded.problem, recorded.profile, candidate, analysis, recorded.turns, lane)

        begun = context(metrics, ANALYSE)
        analysis = self._once(begun.lane.name, lambda: proposer.analyse(begun))
        first = context(analysis, ANALYSE, REWRITE)
        tries = [self._once(first.lane.name, lambda: _try(proposer, first, ()))]
        if not tries[0].attempt.correct:
            again = context(analysis, ANALYSE, REWRITE, REPAIR)
            tries.append(self._once(again.lane.name, lambda: _try(proposer, again, (tries[0].attempt,))))
        rollout = Rollout(first, metrics, tuple(tries))
        if len(self._memory) > asked:
            self._tell(f"  {name}: {rollout.summary}")
        return rollout

    def _once(self, key: str, work: Callable[[], Result]) -> Result:
        """Run work once per key and return its result; each time add DSPy's trace, which tells GEPA what ran."""
        if key not in self._memory:
            with dspy.context(trace=[]):
                self._memory[key] = work(), list(dspy.settings.trace)
        result, trace = self._memory[key]
        if dspy.settings.trace is not None:
            dspy.settings.trace.extend(trace)
        found: Result = result
        return found


class _NamedLane(Lane):
    """Return a lane that is named by its trial."""

    def __init__(self, workbench: Workbench, number: int, name: str) -> None:
        super().__init__(workbench, number, 0, lambda: None)
        self._name = name

    @property
    def name(self) -> str:
        return self._name


def in_daemon(work: Callable[[], Result], given_up: threading.Event) -> Result:
    """The result of work in a daemon thread: Ctrl-C must not wait minutes for a model's answer.

    Ctrl-C here, or `given_up` set elsewhere, leaves it behind: `KeyboardInterrupt`, `TrialsEndedError`.
    """
    results: list[Result] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True)
    thread.start()
    try:
        while thread.is_alive() and not given_up.is_set():
            thread.join(0.1)
    except KeyboardInterrupt:
        given_up.set()
        raise
    if failures:
        raise failures[0]
    if not results:
        raise TrialsEndedError
    return results[0]


def _try(proposer: ModelProposer, context: TurnContext, failed: tuple[Attempt, ...]) -> Try:
    lane = context.lane
    try:
        proposal = proposer.propose(context, failed)
    except NoKernelError as error:
        attempt = Attempt(None, (), str(error))
    else:
        if proposal is None:
            return Try(Attempt(None, (), "the analysis suggested nothing"), tuple(lane.tried), tuple(lane.tool_calls))
        evaluation = lane.evaluate(proposal.kernel, Config(), proposal.strategy)
        error_text = "" if evaluation.ok else f"{evaluation.status}: {evaluation.message}"
        attempt = Attempt(proposal, (evaluation,), error_text)
    return Try(attempt, tuple(lane.tried), tuple(lane.tool_calls))


def _failed(recorded: RecordedTurn) -> list[Category]:
    """Return the targets of past turns without success."""
    failed = (turn.proposal for turn in recorded.turns if not turn.improved and turn.proposal is not None)
    return [Category(proposal.category) for proposal in failed]


def _digest(state: Mapping[str, Any], predictors: tuple[str, ...]) -> str:
    """The last of the predictors, and twelve digits that stand for the instructions of all of them."""
    texts = "\0".join(state[name]["signature"]["instructions"] for name in predictors)
    return f"{predictors[-1]} {hashlib.sha256(texts.encode()).hexdigest()[:12]}"
