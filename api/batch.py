"""`batch`: many kernels, one after the other; a failure ends one of them, not the batch."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..core import KernelwrightError, Waiting
from ..core.events import Emit, Note, PartDone, PartStarted, Warned
from .optimize import open_session
from .options.optimize import BatchOptions, RunOptions
from .run_journal import earlier_summary

if TYPE_CHECKING:
    from .optimize_result import OptimizeResult
    from .session import Session


@dataclass(frozen=True)
class BatchResult:
    """The runs of a batch."""

    summaries: tuple[dict[str, Any], ...]
    """One per kernel, in order: `OptimizeResult.summary()`, or problem, verified and error."""

    @property
    def verified(self) -> bool:
        """Whether every kernel ended with a verified one."""
        return all(summary["verified"] for summary in self.summaries)

    @property
    def faster(self) -> bool:
        """Whether one of them became faster; summaries of older runs do not say, and count."""
        return any(summary["verified"] and summary.get("faster", True) for summary in self.summaries)


def run_batch(options: BatchOptions, emit: Emit) -> BatchResult:
    """Optimize each kernel that is named."""
    with open_session(options, emit) as session:
        _ = session.results  # a folder that cannot be written is reported now, not for each kernel
        summaries = []
        for number, reference in enumerate(options.kernels, start=1):
            emit(PartStarted(reference, number, len(options.kernels)))
            summaries.append(_summary(session, reference, options, emit))
    return BatchResult(tuple(summaries))


def _summary(session: Session, reference: str, options: RunOptions, emit: Emit) -> dict[str, Any]:
    try:
        job = session.job(reference)
        path = session.results.journal_path(job.problem, job.backend)
        done = earlier_summary(path, job, options.target_speedup) if options.resume else None
        if done is not None:
            emit(Note(f"finished before: {reference}"))
            return done
        result: OptimizeResult = session.optimize(job)
        emit(PartDone(result))
        return result.summary()
    except Waiting:
        raise
    except Exception as error:  # even a bug of ours costs one kernel of a batch, not the rest
        if not isinstance(error, KernelwrightError):
            traceback.print_exc()
        emit(Warned(f"{reference}: {error}"))
        return {"problem": reference, "verified": False, "error": str(error)}
