"""`check`: kernels against their references, and against what was stored of the same device.

What is compared is the ratio to the reference timed in the same run, interleaved with the kernel. A machine that is
slower today, a lower clock or a warmer room slow both sides and leave the ratio as it was; a time in milliseconds would
fail then. The price: where the reference itself changes, with its text, torch or the number of threads, ratios are not
comparable, and the kernel is only checked.
"""

from __future__ import annotations

import contextlib
import time

from ..core import Config, Evaluation, KernelwrightError, OptionError, Speedup, Status
from ..core.events import Emit, PartDone, working
from ..corpus.functions.target import is_function
from ..evaluators.local import LocalEvaluator
from .check_result import FAILED, CheckResult, KernelCheck, Verdict, compare
from .devices import choose_device, device_label
from .evaluators import local_evaluator
from .jobs import Job, find_job
from .options.check import CheckOptions
from .stored_figures import Figure, FigureKey, StoredFigures, figure_of, key_of

RUNS = 3
"""As many times a kernel is measured for its figure, each time in new processes."""


def run_check(options: CheckOptions, emit: Emit) -> CheckResult:
    """Check every kernel, and store each figure at once. Mistakes are found before anything is measured.

    Whatever is measured more than once gets processes of its own each time: on a busy CPU the ratios of two runs
    differed by a fifth, each with a narrow interval that its own repetition confirmed.
    """
    device = choose_device(options)
    stored = StoredFigures(options.baseline_file) if options.baseline_file else None
    if stored is not None and not options.record and not stored.path.exists():
        raise OptionError(f"there is no `baseline_file` {stored.path}", "write it with `record`")
    checks = [_Check(options, stored, _job(options, reference, device)) for reference in options.files]
    pending, done = checks, 0
    while pending:
        with local_evaluator(device, options) as evaluator:
            for check in pending:
                with working(emit, f"checking {check.job.reference} on {device}"):
                    check.measure(evaluator)
                if check.settled:
                    done += 1
                    emit(PartDone(check.result(), done, len(checks)))
        pending = [check for check in pending if not check.settled]
    return CheckResult(device_label(device), tuple(check.result() for check in checks))


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
    """The check of one kernel, which is measured until it is settled."""

    def __init__(self, options: CheckOptions, stored: StoredFigures | None, job: Job) -> None:
        self.job = job
        self._options, self._stored = options, stored
        self._key = key_of(job, options.baseline_file)
        self._figure: Figure | None = None
        # An entry that cannot be read is about to be written again.
        with contextlib.suppress(*([OptionError] if options.record else [])):
            self._figure = stored.find(self._key) if stored else None
        self._recorded: Figure | None = None
        self._found: list[Evaluation] = []
        self._seconds = 0.0

    def measure(self, evaluator: LocalEvaluator) -> None:
        """Evaluate once; again where other processes disturbed that."""
        start = time.monotonic()
        found = _evaluate(evaluator, self.job)
        if found.ok and found.contention is not None:
            found = _evaluate(evaluator, self.job)
        self._found.append(found)
        self._seconds += time.monotonic() - start
        if self._options.record and self._reliable:
            assert self._stored is not None
            self._recorded = figure_of(self._key, self.job, self._timed)
            self._stored.put(self._recorded)

    @property
    def settled(self) -> bool:
        """Whether nothing more need be measured: a figure is of several runs, and a slowdown must show twice."""
        if not self._reliable:
            return True
        if self._options.record:
            return len(self._found) == RUNS
        return self._figure is None or len(self._found) > 1 or self._against(self._figure) is not Verdict.SLOWER

    def result(self) -> KernelCheck:
        """What was found out."""
        verdict, message = self._verdict()
        found, problem = self._found[-1], self.job.problem
        if found.replay is not None and found.replay.accepted:
            remark = f"accepted, though {found.replay.why_not}"
            message = f"{message}; {remark}" if message else remark
        failed = verdict in FAILED or (self._options.record and verdict is Verdict.DISTURBED)
        return KernelCheck(
            self._key.kernel,
            problem.id,
            problem.workload,
            verdict,
            message,
            failed,
            found,
            self._recorded or self._figure,
            self._seconds,
        )

    @property
    def _reliable(self) -> bool:
        """Whether the last evaluation has a speedup that counts."""
        return self._found[-1].ok and self._found[-1].speedup is not None and self._found[-1].contention is None

    @property
    def _timed(self) -> list[Evaluation]:
        return [item for item in self._found if item.ok and item.speedup is not None and item.contention is None]

    def _verdict(self) -> tuple[Verdict, str]:
        found = self._found[-1]
        if found.status is Status.UNPROVEN:
            return Verdict.UNPROVEN, f"{found.message}; `require_replay` accepts such kernels"
        if not found.ok:
            why = str(found.rejection) if found.rejection else found.message
            return Verdict.WRONG, f"{found.status.value.replace('_', ' ')}: {why}"
        if found.speedup is None:
            return Verdict.CHECKED, found.message
        if self._options.record and self._timed:
            before = f"; before {self._figure.speedup}" if self._figure else ""
            return Verdict.RECORDED, f"{len(self._timed)} of {RUNS} runs{before}"
        if found.contention is not None:
            return Verdict.DISTURBED, f"others used {found.contention:.1f} cores while it was timed"
        if self._stored is None:
            return Verdict.CHECKED, ""
        if self._figure is None:
            return Verdict.CHECKED, _no_figure(self._key, self._stored)
        if why := self._figure.why_incomparable(self.job, found):
            return Verdict.CHECKED, why
        return self._compared(self._figure, found.speedup)

    def _compared(self, figure: Figure, now: Speedup) -> tuple[Verdict, str]:
        verdict, found = self._against(figure), self._found[-1]
        if verdict is Verdict.SLOWER:
            lost = 1 - now.ratio / figure.speedup.ratio
            return verdict, f"{lost:.1%} slower than on {figure.recorded}, twice{_other_versions(figure, found)}"
        if len(self._found) > 1:
            return Verdict.AS_FAST, f"once it looked slower: {self._found[0].speedup}"
        return verdict, "record it again, so that it stays so" if verdict is Verdict.FASTER else ""

    def _against(self, figure: Figure) -> Verdict:
        found = self._found[-1]
        if found.speedup is None or figure.why_incomparable(self.job, found):
            return Verdict.CHECKED
        return compare(figure.speedup, found.speedup, self._options.tolerance)


def _evaluate(evaluator: LocalEvaluator, job: Job) -> Evaluation:
    (found,) = evaluator.evaluate(job.problem, job.kernel, [Config()])
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
