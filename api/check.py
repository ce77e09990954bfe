"""`check`: kernels against their references, and against what was stored of the same device.

What is compared is the ratio to the reference timed in the same run, interleaved with the kernel. A machine that is
slower today, a lower clock or a warmer room slow both sides and leave the ratio as it was; a time in milliseconds would
fail then. The price: where the reference itself changes, with its text, torch or the number of threads, ratios are not
comparable, and the kernel is only checked.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ..core import Config, Evaluation, KernelwrightError, OptionError, Speedup
from ..corpus.functions.target import is_function
from ..evaluators.local import LocalEvaluator
from .devices import choose_device, device_label
from .evaluators import local_evaluator
from .jobs import Job, find_job
from .observers import CheckObserver
from .options.check import CheckOptions
from .stored_figures import Figure, FigureKey, StoredFigures, figure_of, key_of


class Verdict(StrEnum):
    """What was found out about a kernel."""

    AS_FAST = "as fast"
    FASTER = "faster"
    SLOWER = "slower"
    WRONG = "wrong"
    CHECKED = "checked"
    """Correct, and not compared."""
    DISTURBED = "disturbed"
    """Correct, and other processes disturbed the timing twice."""
    RECORDED = "recorded"


@dataclass(frozen=True)
class KernelCheck:
    """The result of one kernel."""

    kernel: str
    """As it is filed: see `stored_figures.key_of`."""
    problem: str
    workload: str
    verdict: Verdict
    message: str
    """One line; '' where the verdict says everything."""
    failed: bool
    evaluation: Evaluation
    stored: Figure | None
    seconds: float

    def record(self) -> dict[str, Any]:
        """The result as plain data, as `--json` prints it."""
        then = self.stored
        return {
            "kernel": self.kernel,
            "problem": self.problem,
            "workload": self.workload,
            "verdict": self.verdict.value,
            "failed": self.failed,
            "message": self.message,
            "evaluation": self.evaluation.summary().to_json(),
            "stored": {**then.speedup.model_dump(), "recorded": then.recorded} if then else None,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True)
class CheckResult:
    """The results of all kernels."""

    device: str
    kernels: tuple[KernelCheck, ...]

    @property
    def failed(self) -> tuple[KernelCheck, ...]:
        """Those that are wrong, slower, or could not be recorded."""
        return tuple(one for one in self.kernels if one.failed)

    @property
    def environment(self) -> dict[str, str]:
        """Device and versions."""
        return self.kernels[0].evaluation.environment

    def summary(self) -> dict[str, Any]:
        """The results as plain data."""
        return {
            "device": self.device,
            "environment": self.environment,
            "failed": [one.kernel for one in self.failed],
            "kernels": [one.record() for one in self.kernels],
        }


def run_check(options: CheckOptions, observer: CheckObserver) -> CheckResult:
    """Check every kernel, and store each figure at once. Mistakes are found before anything is measured."""
    device = choose_device(options)
    stored = StoredFigures(options.baseline_file) if options.baseline_file else None
    if stored is not None and not options.record and not stored.path.exists():
        raise OptionError(f"there is no `baseline_file` {stored.path}", "write it with `record`")
    jobs = [_job(options, reference, device) for reference in options.files]
    found = []
    with local_evaluator(device, options) as evaluator:
        for number, job in enumerate(jobs, start=1):
            with observer.working(f"checking {job.reference} on {device}"):
                found.append(_Check(options, evaluator, stored, job).result())
            observer.kernel_checked(number, len(jobs), found[-1])
    return CheckResult(device_label(device), tuple(found))


def compare(stored: Speedup, now: Speedup, tolerance: float) -> Verdict:
    """Whether a kernel is slower or faster beyond both intervals and the tolerance.

    The intervals are those of the medians within one run (`core.measurement`). Runs differ by more: memory lies
    elsewhere, threads on other cores; the tolerance is for that.
    """
    if now.high < stored.low * (1 - tolerance):
        return Verdict.SLOWER
    if now.low > stored.high * (1 + tolerance):
        return Verdict.FASTER
    return Verdict.AS_FAST


def _job(options: CheckOptions, reference: str, device: str) -> Job:
    if is_function(reference):
        raise OptionError(f"{reference} is a function", "'kernelwright evaluate' checks it; `files` are kernel files")
    try:
        return find_job(options, reference, device)
    except KernelwrightError as error:
        if reference in error.message:
            raise
        raise type(error)(f"{reference}: {error.message}", error.hint) from None


class _Check:
    """The check of one kernel."""

    def __init__(
        self, options: CheckOptions, evaluator: LocalEvaluator, stored: StoredFigures | None, job: Job
    ) -> None:
        self._options, self._evaluator, self._stored, self._job = options, evaluator, stored, job
        self._key = key_of(job, options.baseline_file)
        self._figure = stored.find(self._key) if stored else None

    def result(self) -> KernelCheck:
        start = time.monotonic()
        verdict, message, evaluation = self._verdict()
        if not evaluation.proven and evaluation.replay is not None:
            remark = f"timed beside its own Python, since it could not be replayed: {evaluation.replay.reason}"
            message = f"{message}; {remark}" if message else remark
        failed = verdict in (Verdict.WRONG, Verdict.SLOWER)
        failed |= self._options.record and verdict is Verdict.DISTURBED
        problem = self._job.problem
        return KernelCheck(
            self._key.kernel,
            problem.id,
            problem.workload,
            verdict,
            message,
            failed,
            evaluation,
            self._figure,
            time.monotonic() - start,
        )

    def _verdict(self) -> tuple[Verdict, str, Evaluation]:
        found = self._evaluate()
        if found.ok and found.contention is not None:
            found = self._evaluate()
        if not found.ok:
            why = str(found.rejection) if found.rejection else found.message
            return Verdict.WRONG, f"{found.status.value.replace('_', ' ')}: {why}", found
        if found.speedup is None:
            return Verdict.CHECKED, found.message, found
        if found.contention is not None:
            return Verdict.DISTURBED, f"others used {found.contention:.1f} cores while it was timed", found
        if self._options.record:
            return self._recorded(found)
        if (why := self._why_not_compared(found)) or self._figure is None:
            return Verdict.CHECKED, why, found
        return self._compared(self._figure, found)

    def _compared(self, figure: Figure, found: Evaluation) -> tuple[Verdict, str, Evaluation]:
        """A slowdown must show twice, in processes and on inputs of its own."""
        assert found.speedup is not None
        verdict = compare(figure.speedup, found.speedup, self._options.tolerance)
        if verdict is not Verdict.SLOWER:
            hint = "record it again, so that it stays so" if verdict is Verdict.FASTER else ""
            return verdict, hint, found
        again = self._evaluate()
        if not again.ok or again.speedup is None:
            return Verdict.WRONG, f"{again.status.value.replace('_', ' ')} when run again: {again.message}", again
        if again.contention is not None:
            return Verdict.DISTURBED, "it looked slower, and others disturbed the second timing", again
        if compare(figure.speedup, again.speedup, self._options.tolerance) is not Verdict.SLOWER:
            return Verdict.AS_FAST, f"once it looked slower: {found.speedup}", again
        lost = 1 - again.speedup.ratio / figure.speedup.ratio
        return (
            Verdict.SLOWER,
            f"{lost:.1%} slower than on {figure.recorded}, twice{_other_versions(figure, again)}",
            again,
        )

    def _recorded(self, found: Evaluation) -> tuple[Verdict, str, Evaluation]:
        assert self._stored is not None
        before = self._figure.speedup if self._figure else None
        self._stored.put(figure_of(self._key, self._job, found))
        return Verdict.RECORDED, f"before {before}" if before else "", found

    def _why_not_compared(self, found: Evaluation) -> str:
        if self._stored is None:
            return ""
        if self._figure is None:
            return _no_figure(self._key, self._stored)
        return self._figure.why_incomparable(self._job, found)

    def _evaluate(self) -> Evaluation:
        (found,) = self._evaluator.evaluate(self._job.problem, self._job.kernel, [Config()])
        return found


def _no_figure(key: FigureKey, stored: StoredFigures) -> str:
    elsewhere = [name for name in stored.devices_of(key.kernel) if name != key.device]
    known = f" (there are some of {', '.join(elsewhere)})" if elsewhere else ""
    return f"no stored figure of this kernel and workload on {key.device}{known}: add it with --record"


def _other_versions(figure: Figure, found: Evaluation) -> str:
    """What else is of another version than when the figure was stored, a likely cause."""
    names = sorted(set(figure.environment) & set(found.environment))
    changed = [name for name in names if figure.environment[name] != found.environment[name]]
    told = [f"{name} {figure.environment[name]} is {found.environment[name]} now" for name in changed]
    return f"; {', '.join(told)}" if told else ""
