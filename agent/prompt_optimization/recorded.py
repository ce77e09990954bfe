"""Training situations: the kernels that earlier runs started from, read back from their journals."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core import (
    Evaluation,
    JournalError,
    Kernel,
    KernelRecord,
    KernelwrightError,
    Language,
    Profile,
    ProfileRecord,
    Proposal,
    PythonKernel,
    RunRecord,
    Target,
    TorchProblem,
    Trial,
    TurnRecord,
    read_journal,
)
from ...core.journal import of
from ...core.syntax_tree import literal
from ...core.turn_record import AttemptRecord
from ..bottleneck import Analysis
from ..history.records import journals_in as recorded_journals
from ..history.records import run_files
from ..turn import Attempt, Candidate, Turn, latest_turns

Kind = tuple[Language, Target]
"""Language and target, by which instructions differ."""


@dataclass(frozen=True)
class RecordedTurn:
    """A kernel that a run tried to improve, and the earlier turns."""

    problem: TorchProblem
    profile: Profile
    kernel: Kernel
    turns: tuple[Turn, ...]

    @property
    def name(self) -> str:
        """'1_36 turn 2 3f9a': the digits stand for the sizes and the kernel."""
        number = self.turns[-1].number + 1 if self.turns else 1
        return f"{self.problem.id.rsplit('/', 1)[-1]} turn {number} {self.digest[:4]}"

    @property
    def digest(self) -> str:
        """Stands for the problem, its sizes and the kernel."""
        return _digest(self.problem.id, self.sizes_digest, self.kernel.digest)

    @property
    def sizes_digest(self) -> str:
        """Stands for the reference and its sizes."""
        return _digest(self.problem.source, self.problem.sizes_key)

    @property
    def kind(self) -> Kind:
        """The kernel's language and target."""
        return self.kernel.language, self.kernel.target


def journals_in(paths: Iterable[Path]) -> list[Path]:
    """The journals of runs: files as they are named, and those in results folders. `JournalError` when there are none.

    Journals of searches are not runs.
    """
    given = list(paths)
    found: list[Path] = []
    for path in given:
        if path.is_file():
            found.append(path)
        elif path.is_dir():
            found += recorded_journals(path)
        else:
            raise JournalError(f"there is no {path}; give results folders of earlier runs, or their journals")
    if not found:
        raise JournalError(
            f"no journals in {', '.join(map(str, given))}; give results folders of 'kernelwright optimize'"
        )
    return found


def read_turn_contexts(
    paths: Sequence[Path], problems: Callable[[str], Iterable[TorchProblem]], device: str, note: Callable[[str], None]
) -> list[RecordedTurn]:
    """The contexts of all journals that were recorded on this device, each once, in the order of the journals.

    `problems` gives the problems that an id may mean; the one with the recorded reference is taken. `note` is told
    which journals are left out, and why.
    """
    found: dict[str, RecordedTurn] = {}
    for path in paths:
        try:
            for context in _contexts(path, problems, device):
                found.setdefault(context.digest, context)
        except KernelwrightError as error:
            note(f"left out: {error}")
        except (OSError, KeyError, TypeError, ValueError, SyntaxError, RecursionError) as error:
            line = next(iter(str(error).splitlines()), "")
            note(f"left out: {path} is not what a run writes ({type(error).__name__}: {line})")
    return list(found.values())


def _contexts(path: Path, problems: Callable[[str], Iterable[TorchProblem]], device: str) -> list[RecordedTurn]:
    records = read_journal(path)
    run = next(of(records, RunRecord), None)
    if run is None:
        raise JournalError(f"{path} is not a journal of an optimization")
    if run.device != device:
        raise JournalError(f"{path} was recorded on {run.device}, and this is {device}")
    profile = next((record.profile for record in of(records, ProfileRecord)), None)
    trials = [trial.evaluation for trial in of(records, Trial)]
    if profile is None or not trials or trials[0].speedup is None:
        raise JournalError(f"{path}: the start kernel was not correct, or not timed")
    problem = _problem(run, path, problems)
    sources = {record.digest: record.source for record in of(records, KernelRecord)}
    start = PythonKernel.parse(sources[trials[0].kernel_digest], problem.name)
    contexts = [RecordedTurn(problem, profile, start, ())]
    searched = [*trials, *_searched(path)]
    # A turn starts with the start kernel or the result of an earlier turn.
    measured = {start.source: trials[0]}
    turns: list[Turn] = []
    for record in latest_turns(records):
        if record.before is None:
            raise JournalError(f"{path}: turn {record.number} does not say what it began with")
        kernel = PythonKernel.parse(record.before, problem.name)
        if kernel.source not in measured:
            raise JournalError(f"{path}: what turn {record.number} began with was measured nowhere")
        past = tuple(turn for turn in turns if turn.number < record.number)
        contexts.append(RecordedTurn(problem, profile, kernel, past))
        turn = _turn(record, Candidate(kernel, measured[kernel.source]), searched)
        turns.append(turn)
        if turn.found is not None:
            measured[turn.found.kernel.source] = turn.found.evaluation
    return contexts


def _problem(run: RunRecord, path: Path, problems: Callable[[str], Iterable[TorchProblem]]) -> TorchProblem:
    """The problem at the recorded sizes."""
    for problem in problems(run.problem):
        if problem.digest == run.reference:
            sizes = dict(literal(run.sizes))
            known = (name for name, declared in problem.workloads.items() if dict(declared) == sizes)
            return problem.resized(next(known, ",".join(f"{name}={value}" for name, value in sizes.items())), sizes)
    raise JournalError(f"{path}: no problem {run.problem} with the recorded reference; name its file with `problem`")


def _searched(path: Path) -> list[Evaluation]:
    """Return the evaluations of a run's searches."""
    searches = run_files(path).searches
    return [trial.evaluation for search in searches for trial in of(read_journal(search), Trial)]


def _turn(record: TurnRecord, before: Candidate, evaluations: Sequence[Evaluation]) -> Turn:
    """A past turn as far as a model is shown it; its evaluation is the one with the recorded time."""
    latency = record.metrics.latency_ms if record.metrics else None
    measured = next(
        (evaluation for evaluation in evaluations if latency is not None and evaluation.latency_ms == latency), None
    )
    arrived = PythonKernel(before.kernel.language, before.kernel.target, record.kernel or "", before.kernel.name)
    return Turn(
        number=record.number,
        lane=record.lane,
        analysis=Analysis.from_record(record.analysis),
        before=before,
        attempts=tuple(_attempt(attempt, record, before.kernel) for attempt in record.attempts),
        found=Candidate(arrived, measured) if measured else None,
        improved=record.improved,
        gain=record.gain,
    )


def _attempt(record: AttemptRecord, turn: TurnRecord, before: Kernel) -> Attempt:
    if record.kernel is None:
        return Attempt(None, (), record.error)
    kernel = PythonKernel(before.language, before.target, record.kernel, before.name)
    return Attempt(Proposal(kernel, record.strategy, turn.proposal_category, turn.rationale), (), record.error)


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:8]
