"""Make many kernels faster, one after the other; a failure ends one of them, not the batch.

Exit codes: 0 all are verified and one is faster, 1 some failed, 2 wrong usage, 3 nothing faster was found, 75 waiting
for a reply (--no-wait).
"""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from ..core import KernelwrightError, Metrics, OptionError, ReplyPendingError
from ..core.baselines import STRICT, against_text
from ..core.events import Emit, Note, PartDone, PartStarted, Warned
from ..evaluators.workers.removal import sweep
from ..runtime import command, result
from ..runtime.command import search_code
from ..runtime.jobs import earlier_summary
from ..runtime.options.groups import RunOptions
from ..runtime.options.option import described
from ..runtime.runtime import Runtime
from ._optimize import open_optimizer
from ._optimize.settings import SessionSettings

if TYPE_CHECKING:
    from ._optimize.kernel_optimizer import KernelOptimizer

EXAMPLES = ("batch 1_19 level2/2_10.py --target-speedup 1.3",)
POSITIONAL = ("kernels",)
VERBOSE = True


@dataclass(frozen=True, kw_only=True)
class Options(RunOptions):
    """Make many kernels faster, one after the other."""

    kernels: tuple[str, ...] = field(kw_only=False, metadata=described("The kernels, each named as for `kernel`."))

    def check(self) -> None:
        """Raise `OptionError` for options that contradict each other."""
        super().check()
        if not self.kernels:
            raise OptionError("the batch names no kernels", "name one per line, such as level2/2_10.py")
        if self.problem:
            raise OptionError("`problem` names one problem", "leave it out of a batch")


@dataclass(frozen=True)
class Plan(command.Plan):
    """The runs of a batch, and the folder of their files."""

    kernels: tuple[str, ...]
    device: str
    target_speedup: float | None
    results: Path
    resume: bool
    open_optimizer: Callable[[Emit], AbstractContextManager[KernelOptimizer]] = field(metadata=command.NOT_SHOWN)


class Result(result.Result):
    """The runs of a batch."""

    summaries: result.ForPython[tuple[dict[str, Any], ...]]
    """One per kernel, in order: the output of `optimize --json`, or problem, verified and error."""

    @result.computed
    def results(self) -> list[dict[str, Any]]:
        """The result of each kernel."""
        return list(self.summaries)

    @property
    def verified(self) -> bool:
        """Whether every run ended with a verified kernel."""
        return all(summary["verified"] for summary in self.summaries)

    @property
    def faster(self) -> bool:
        """Whether at least one kernel became faster. Older summaries lack this, and count as faster."""
        return any(summary["verified"] and summary.get("faster", True) for summary in self.summaries)

    @property
    def exit_code(self) -> int:
        """0 if all are verified and one is faster, 1 if one is not verified."""
        return search_code(self.verified, self.faster)

    def lines(self) -> Iterator[Table]:
        """One row per kernel."""
        yield batch_table(self.summaries)


def plan(options: Options, runtime: Runtime) -> Plan:
    """Choose the machines."""
    settings = SessionSettings.of(options, runtime)
    return Plan.of(options, device=settings.device, open_optimizer=partial(open_optimizer, settings))


def run(plan: Plan, emit: Emit) -> Result:
    """Optimize each named kernel."""
    sweep(Path(tempfile.gettempdir()))  # a killed run may have left folders behind
    with plan.open_optimizer(emit) as optimizer:
        _ = optimizer.results  # a folder that cannot be written is reported now, not for each kernel
        summaries = []
        for number, reference in enumerate(plan.kernels, start=1):
            emit(PartStarted(reference, number, len(plan.kernels)))
            summaries.append(_summary(optimizer, reference, plan, emit))
    return Result(summaries=tuple(summaries))


def _summary(optimizer: KernelOptimizer, reference: str, plan: Plan, emit: Emit) -> dict[str, Any]:
    try:
        job = optimizer.job(reference)
        path = optimizer.results.journal_path(job.problem, job.backend)
        done = earlier_summary(path, job, optimizer.target(job)) if plan.resume else None
        if done is not None:
            emit(Note(f"finished before: {reference}"))
            return done
        result = optimizer.optimize(job)
        emit(PartDone(result))
        return result.finished.summary()
    except ReplyPendingError:
        raise
    except Exception as error:  # even a bug of ours fails one kernel of a batch, not the others
        if not isinstance(error, KernelwrightError):
            traceback.print_exc()
        emit(Warned(f"{reference}: {error}"))
        return {"problem": reference, "verified": False, "error": str(error)}


def batch_table(summaries: Sequence[Mapping[str, Any]]) -> Table:
    """One row per kernel of a batch."""
    columns = ("kernel", ">start ms", ">best ms", ">faster", "speedup", "target", "result")
    table = result.table(*columns, title="batch")
    for summary in summaries:
        table.add_row(summary["problem"], *_batch_row(summary))
    return table


def _batch_row(summary: Mapping[str, Any]) -> tuple[str, ...]:
    if not summary["verified"] or not summary.get("best", {}).get("speedup"):
        return ("", "", "", "", "", f"[red]{escape(str(summary.get('error') or summary.get('stopped')))}[/]")
    start, best = summary["start"]["latency_ms"], summary["best"]["latency_ms"]
    return (
        f"{start:.3f}",
        f"{best:.3f}",
        f"{summary['gain']:.2f}x" if summary.get("gain") else "",
        _batch_speedup(summary),
        {True: "[green]reached[/]", False: "not reached", None: "none"}[summary["target_reached"]],
        escape(summary["stopped"]),
    )


def _batch_speedup(summary: Mapping[str, Any]) -> str:
    """Return the speedup over the target's baseline, with its name unless it is the reference."""
    against, precision = summary.get("against", STRICT), summary.get("precision", "fp32")
    shown = Metrics.model_validate(summary["best"]).speedup_against(against)
    baseline = against_text(against, precision)
    return "" if shown is None else f"{shown:.3f}x" + ("" if baseline == "the reference" else f" ({baseline})")
