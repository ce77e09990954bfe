"""The journal of a run of `optimize`: whose it is, its turns, and how it ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..agent.turn import Turn
from ..core import FinishedRecord, Journal, JournalError, RunRecord, TurnRecord, read_journal
from ..core.journal import of
from .jobs import Job


def keep(journal: Journal, turn: Turn) -> None:
    """Write a turn down, unless the resumed run did; a turn that was cut off and is now whole is written again."""
    record = turn.record()
    what = ("number", "lane", "attempts", "kernel", "improved")  # a resumed run spends other seconds on the same
    if all(any(getattr(known, name) != getattr(record, name) for name in what) for known in journal.of(TurnRecord)):
        journal.append(record)


def run_record(job: Job, model: str) -> RunRecord:
    """Return the identity of a run."""
    return RunRecord(
        problem=job.problem.id,
        reference=job.problem.digest,
        sizes=job.problem.sizes_key,
        kernel=job.kernel.digest,
        device=job.label,
        # Results under other rules, or with another timing, do not apply to this run.
        allow_torch=job.trust.allow_torch.value,
        graph=str(job.graph),
        precision=job.precision.value,
        against=job.against,
        backend=job.backend,
        model=model,
    )


def same_run(journal: Journal, job: Job, model: str) -> None:
    """Write the run's identity, or raise `JournalError` for the journal of another run."""
    this, known = run_record(job, model), next(journal.of(RunRecord), None)
    if known is None:
        journal.append(this)
    elif different := known.changed(this):
        raise JournalError(
            f"{journal.path} is of another run: {', '.join(different)} changed", "leave `resume` out to start again"
        )


def earlier_summary(path: Path, job: Job, target: float) -> dict[str, Any] | None:
    """The summary of the same run, if it has finished with a verified kernel and nothing cut it short; else None."""
    records = read_journal(path) if path.exists() else []
    known, last = next(of(records, RunRecord), None), next(of(reversed(records), FinishedRecord), None)
    if known is None or last is None or known.changed(run_record(job, known.model)):
        return None
    done = last.verified and last.target_speedup == target and not last.cut_short
    return last.summary() if done else None
