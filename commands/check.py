"""Check kernels against their references, and compare their speed with stored figures of the same device.

Exit codes: 0 all are correct and none is slower, 1 some are wrong, unproven, slower or not measured, 2 wrong usage.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import computed_field

from ..core import KernelwrightError, OptionError, ResultsError
from ..core.events import Emit, Mark, PartDone, working
from ..core.files import write_whole
from ..corpus.functions.target import is_function
from ..runtime import command, result
from ..runtime.devices import device_label
from ..runtime.jobs import Job
from ..runtime.options.groups import OUTPUT, ProblemOptions
from ..runtime.options.option import described, option
from ..runtime.options.trust import TimingOptions
from ..runtime.runtime import OpenLocal, Runtime
from ..runtime.stored_figures import Figure, FigureKey, StoredFigures, key_of
from ._check import Check, KernelCheck, Verdict, in_words, junit, markdown

EXAMPLES = (
    "check kernels/*.py --baseline-file kernels/figures.json --record",
    "check kernels/*.py --baseline-file kernels/figures.json --junit check.xml",
)
POSITIONAL = ("files",)
COMPARISON = "Comparison"
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""GitHub's variable for a file whose Markdown it shows on a run's page."""


@dataclass(frozen=True, kw_only=True)
class Options(TimingOptions, ProblemOptions):
    """Check kernels, and compare their speed with the stored results of the same device."""

    files: tuple[str, ...] = field(
        kw_only=False,
        metadata=described("Kernels: paths, or level2/2_10.py, 2_10 for shipped ones.", metavar="FILE..."),
    )
    baseline_file: Path | None = option(
        None,
        "The stored figures, a file next to the kernels in version control. Without it only correctness counts.",
        COMPARISON,
        metavar="FILE",
    )
    record: bool = option(
        False, "Store the figures in `baseline_file` instead of comparing; other entries are kept.", COMPARISON
    )
    tolerance: float = option(
        0.05,
        "How much slower a kernel may be beyond the intervals of both figures: 0.05 is 5 %.",
        COMPARISON,
        at_least=0,
        at_most=0.9,
        advice="it is a share such as 0.05",
    )
    junit: Path | None = option(None, "Write the results as JUnit XML.", OUTPUT, metavar="FILE")
    summary: Path | None = option(
        None,
        "Write the results as Markdown; they are appended to the file that GITHUB_STEP_SUMMARY names anyway.",
        OUTPUT,
        metavar="FILE",
    )

    def check(self) -> None:
        """Raise `OptionError` for options that contradict each other."""
        super().check()
        if not self.files:
            raise OptionError("there is nothing to check", "name kernels")
        if self.problem is not None and len(self.files) > 1:
            raise OptionError(
                "`problem` names one problem", "'Problem Name: ...' in a kernel's docstring names its own"
            )
        if self.record and self.baseline_file is None:
            raise OptionError("`record` needs a file to write", "give `baseline_file`")
        for name in ("baseline_file", "junit", "summary"):
            path: Path | None = getattr(self, name)
            if path is not None and path.is_dir():
                raise OptionError(f"`{name}` {path} is a folder", "name a file")


@dataclass(frozen=True)
class Plan(command.Plan):
    """The kernels, the stored figures to compare with, and the files to write."""

    device: str
    jobs: list[Job]
    keys: list[FigureKey] = field(metadata=command.NOT_SHOWN)
    """Key of each kernel's figure."""
    figures: list[Figure | None] = field(metadata=command.NOT_SHOWN)
    """Stored figure of each kernel."""
    stored: StoredFigures | None = field(metadata=command.NOT_SHOWN)
    record: bool
    tolerance: float
    junit: Path | None
    summary: Path | None
    step_summary: Path | None
    """File to which the Markdown is appended."""
    open_evaluator: OpenLocal = field(metadata=command.NOT_SHOWN)


class Result(result.Result):
    """The results of all kernels."""

    device: str
    kernels: result.ForPython[tuple[KernelCheck, ...]]

    @result.computed
    def environment(self) -> dict[str, str]:
        """Device and versions."""
        return self.kernels[0].evaluation.environment

    @property
    def failed(self) -> tuple[KernelCheck, ...]:
        """Kernels that are wrong, unproven or slower, or could not be recorded."""
        return tuple(item for item in self.kernels if item.failed)

    @computed_field(alias="failed")
    @property
    def failed_names(self) -> list[str]:
        """Names of kernels that are wrong, unproven or slower, or could not be recorded."""
        return [item.kernel for item in self.failed]

    @computed_field(alias="kernels")
    @property
    def records(self) -> list[dict[str, Any]]:
        """The result of each kernel."""
        return [item.to_json() for item in self.kernels]

    @property
    def passed(self) -> int:
        """Number of kernels that did not fail."""
        return len(self.kernels) - len(self.failed)

    @property
    def exit_code(self) -> int:
        """1 if a kernel failed."""
        return 1 if self.failed else 0

    def lines(self) -> Iterator[str]:
        """The number of passed kernels. Each kernel's line was an event."""
        yield f"{self.passed} of {len(self.kernels)} kernels passed"


def plan(options: Options, runtime: Runtime) -> Plan:
    """Find the kernels and their stored figures. Errors are raised before anything is measured."""
    device = runtime.device(options)
    stored = StoredFigures(options.baseline_file) if options.baseline_file else None
    if stored is not None and not options.record and not stored.path.exists():
        raise OptionError(f"there is no `baseline_file` {stored.path}", "write it with `record`")
    jobs = [_job(options, reference, device, runtime) for reference in options.files]
    keys = [key_of(job, options.baseline_file) for job in jobs]
    step_summary = os.environ.get(STEP_SUMMARY)
    return Plan.of(
        options,
        device=device,
        jobs=jobs,
        keys=keys,
        figures=[_figure(stored, key, options.record) for key in keys],
        stored=stored,
        step_summary=Path(step_summary) if step_summary else None,
        open_evaluator=runtime.local_evaluator(device, options),
    )


def _job(options: Options, reference: str, device: str, runtime: Runtime) -> Job:
    if is_function(reference):
        raise OptionError(f"{reference} is a function", "'kernelwright evaluate' checks it; `files` are kernel files")
    try:
        return runtime.job(options, reference, device)
    except KernelwrightError as error:
        if reference in error.message:
            raise
        raise type(error)(f"{reference}: {error.message}", error.hint) from None


def _figure(stored: StoredFigures | None, key: FigureKey, record: bool) -> Figure | None:
    # An unreadable entry is about to be overwritten.
    with contextlib.suppress(*([OptionError] if record else [])):
        return stored.find(key) if stored else None
    return None


def run(plan: Plan, emit: Emit) -> Result:
    """Check every kernel, store each figure at once, and write the reports.

    Repeated measurements get new processes each time: on a busy CPU the ratios of two runs differed by a fifth,
    although each had a narrow interval that repetition in the same process confirmed.
    """
    checks = [
        Check(job, key, plan.stored, figure, plan.record, plan.tolerance)
        for job, key, figure in zip(plan.jobs, plan.keys, plan.figures, strict=True)
    ]
    pending, done = checks, 0
    while pending:
        with plan.open_evaluator() as evaluator:
            for check in pending:
                with working(emit, f"checking {check.job.reference} on {plan.device}"):
                    check.measure(evaluator)
                if check.settled:
                    done += 1
                    emit(_told(check.result(), done, len(checks)))
        pending = [check for check in pending if not check.settled]
    found = Result(device=device_label(plan.device), kernels=tuple(check.result() for check in checks))
    _report(plan, found)
    return found


def _told(check: KernelCheck, number: int, total: int) -> PartDone:
    """Return the event of a kernel whose check is finished."""
    doubtful = check.verdict in (Verdict.CHECKED, Verdict.DISTURBED)
    mark = Mark.FAILED if check.failed else Mark.DOUBTFUL if doubtful else Mark.GOOD
    return PartDone(check, number, total, name=check.kernel, text=in_words(check), mark=mark)


def _report(plan: Plan, found: Result) -> None:
    if plan.junit is not None:
        write_whole(plan.junit, junit(found.device, found.environment, found.kernels), "choose another `junit`")
    text = markdown(found.device, found.environment, found.kernels)
    if plan.summary is not None:
        write_whole(plan.summary, text, "choose another `summary`")
    if plan.step_summary is not None:
        try:
            with plan.step_summary.open("a") as file:
                file.write(text)
        except OSError as error:
            reason = f"cannot write {plan.step_summary}: {error.strerror}"
            raise ResultsError(reason, f"unset {STEP_SUMMARY}") from None
