"""Parts of `check`: the check of one kernel, and reports for build systems.

A kernel is checked against its reference, and against the stored results of the same device.

The compared figure is the ratio to the reference, which is timed interleaved in the same run. A lower clock or a warmer
room slows both and leaves the ratio unchanged, while a time in milliseconds would change. If the reference's text,
torch or number of threads changes, ratios are not comparable, and the kernel is only checked.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from xml.etree import ElementTree

from ..core import Config, Evaluation, Speedup, Status
from ..evaluators.local import LocalEvaluator
from ..runtime.jobs import Job
from ..runtime.stored_figures import Figure, FigureKey, StoredFigures, figure_of

RUNS = 3
"""Number of measurements for a stored figure, each in new processes."""
_NOT_XML = re.compile("[^\t\n\r\\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot contain, such as terminal colours in a compiler's message."""


class Verdict(StrEnum):
    """The verdict on a kernel."""

    AS_FAST = "as fast"
    FASTER = "faster"
    SLOWER = "slower"
    WRONG = "wrong"
    UNPROVEN = "unproven"
    """The kernel's own calls are correct, but it was not replayed."""
    CHECKED = "checked"
    """Correct, but not compared."""
    DISTURBED = "disturbed"
    """Correct, but other processes disturbed the timing twice."""
    RECORDED = "recorded"
    NOT_MEASURED = "not measured"
    """The machine prevented the measurement: nothing is known about the kernel."""


FAILED = (Verdict.WRONG, Verdict.UNPROVEN, Verdict.SLOWER, Verdict.NOT_MEASURED)
_UNDECIDED = (Verdict.CHECKED, Verdict.DISTURBED)


@dataclass(frozen=True)
class KernelCheck:
    """The result of one kernel."""

    kernel: str
    """Name of the kernel in stored figures; see `stored_figures.key_of`."""
    problem: str
    workload: str
    verdict: Verdict
    message: str
    """One line of explanation; '' if the verdict says everything."""
    failed: bool
    evaluation: Evaluation
    stored: Figure | None
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the result as `--json` prints it."""
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


class Check:
    """The check of one kernel, which is measured until the verdict is settled."""

    def __init__(
        self,
        job: Job,
        key: FigureKey,
        stored: StoredFigures | None,
        figure: Figure | None,
        record: bool,
        tolerance: float,
    ) -> None:
        self.job = job
        self._key, self._stored, self._figure = key, stored, figure
        self._record, self._tolerance = record, tolerance
        self._recorded: Figure | None = None
        self._found: list[Evaluation] = []
        self._seconds = 0.0

    def measure(self, evaluator: LocalEvaluator) -> None:
        """Evaluate once, and again if other processes disturbed it."""
        start = time.monotonic()
        found = _evaluate(evaluator, self.job)
        if found.ok and found.contention is not None:
            found = _evaluate(evaluator, self.job)
        self._found.append(found)
        self._seconds += time.monotonic() - start
        if self._record and self._reliable:
            assert self._stored is not None
            self._recorded = figure_of(self._key, self.job, self._timed)
            self._stored.put(self._recorded)

    @property
    def settled(self) -> bool:
        """Whether no more measurements are needed: a figure needs several runs, and a slowdown must show twice."""
        if not self._reliable:
            return True
        if self._record:
            return len(self._found) == RUNS
        return self._figure is None or len(self._found) > 1 or self._against(self._figure) is not Verdict.SLOWER

    def result(self) -> KernelCheck:
        """Return the result."""
        verdict, message = self._verdict()
        found, problem = self._found[-1], self.job.problem
        if found.replay is not None and found.replay.accepted:
            remark = f"accepted, though {found.replay.why_not}"
            message = f"{message}; {remark}" if message else remark
        failed = verdict in FAILED or (self._record and verdict is Verdict.DISTURBED)
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
        if not found.measured:
            return Verdict.NOT_MEASURED, found.message
        if found.status is Status.UNPROVEN:
            return Verdict.UNPROVEN, f"{found.message}; `require_replay` accepts such kernels"
        if not found.ok:
            why = str(found.rejection) if found.rejection else found.message
            return Verdict.WRONG, f"{found.status.value.replace('_', ' ')}: {why}"
        if found.speedup is None:
            return Verdict.CHECKED, found.message
        if self._record and self._timed:
            before = f"; before {self._figure.speedup}" if self._figure else ""
            return Verdict.RECORDED, f"{len(self._timed)} of {RUNS} runs{before}"
        if found.contention is not None:
            return Verdict.DISTURBED, f"other processes used {found.contention:.1f} cores while it was timed"
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
        return verdict, "record it again to keep the gain" if verdict is Verdict.FASTER else ""

    def _against(self, figure: Figure) -> Verdict:
        found = self._found[-1]
        if found.speedup is None or figure.why_incomparable(self.job, found):
            return Verdict.CHECKED
        return compare(figure.speedup, found.speedup, self._tolerance)


def compare(stored: Speedup, now: Speedup, tolerance: float) -> Verdict:
    """Return whether a kernel is slower or faster beyond both intervals and the tolerance.

    The current interval is that of the medians in one run (`core.measurement`). The stored interval spans several runs.
    The tolerance covers other differences between days.
    """
    if now.high < stored.low * (1 - tolerance):
        return Verdict.SLOWER
    if now.low > stored.high * (1 + tolerance):
        return Verdict.FASTER
    return Verdict.AS_FAST


def _evaluate(evaluator: LocalEvaluator, job: Job) -> Evaluation:
    (found,) = evaluator.evaluate(job.problem, job.kernel, [Config()])
    return found


def _no_figure(key: FigureKey, stored: StoredFigures) -> str:
    elsewhere = [name for name in stored.devices_of(key.kernel) if name != key.device]
    known = f" (there are some of {', '.join(elsewhere)})" if elsewhere else ""
    return f"no stored figure of this kernel and workload on {key.device}{known}: add it with --record"


def _other_versions(figure: Figure, found: Evaluation) -> str:
    """Return versions that changed since the figure was stored, which are likely causes."""
    names = sorted(set(figure.environment) & set(found.environment))
    changed = [name for name in names if figure.environment[name] != found.environment[name]]
    changes = [f"{name} {figure.environment[name]} is {found.environment[name]} now" for name in changed]
    return f"; {', '.join(changes)}" if changes else ""


def junit(device: str, environment: Mapping[str, str], kernels: Sequence[KernelCheck]) -> str:
    """Return a test suite with a case per kernel, as Jenkins, GitLab and GitHub Actions read it."""
    seconds = sum(kernel.seconds for kernel in kernels)
    counts = {
        "name": "kernelwright check",
        "tests": str(len(kernels)),
        "failures": str(sum(kernel.failed for kernel in kernels)),
        "errors": "0",
        "time": f"{seconds:.3f}",
    }
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {**counts, "skipped": "0"})
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in {"device": device, **environment}.items():
        ElementTree.SubElement(properties, "property", {"name": name, "value": _clean(value)})
    for check in kernels:
        _case(suite, check)
    ElementTree.indent(root, " ")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _case(suite: ElementTree.Element, check: KernelCheck) -> None:
    """Add the case of a kernel. A correct kernel that could not be compared passes, with the reason in its output."""
    named = {"classname": _clean(check.problem), "name": _clean(check.kernel), "time": f"{check.seconds:.3f}"}
    case = ElementTree.SubElement(suite, "testcase", named)
    text = _clean(in_words(check))
    if check.failed:
        failure = ElementTree.SubElement(case, "failure", {"message": text, "type": check.verdict.value})
        failure.text = _clean(check.evaluation.log or text)
    ElementTree.SubElement(case, "system-out").text = text


def markdown(device: str, environment: Mapping[str, str], kernels: Sequence[KernelCheck]) -> str:
    """Return a table with a row per kernel."""
    passed = len(kernels) - sum(kernel.failed for kernel in kernels)
    versions = [f"{name} {environment[name]}" for name in ("torch", "triton") if name in environment]
    lines = [
        f"### kernelwright check: {passed} of {len(kernels)} kernels passed",
        "",
        f"On {', '.join([device, *versions])}. Speedups are over the reference of the same run.",
        "",
        "| kernel | result | speedup | stored | median | |",
        "|---|---|---|---|---|---|",
    ]
    for item in kernels:
        now, latency = item.evaluation.speedup, item.evaluation.latency_ms
        mark = (
            "\N{CROSS MARK}" if item.failed else "\N{WARNING SIGN}" if item.verdict in _UNDECIDED else "\N{CHECK MARK}"
        )
        cells = [
            f"`{item.kernel}`",
            f"{mark} {item.verdict.value}",
            str(now or ""),
            str(item.stored.speedup) if item.stored else "",
            f"{latency:.4g} ms" if latency else "",
            item.message,
        ]
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines) + "\n"


def in_words(check: KernelCheck) -> str:
    """Describe a check: 'slower: 1.02x [1.01, 1.03] of the reference, stored 1.31x [1.30, 1.32]; 22.1% slower ...'."""
    text, now = check.verdict.value, check.evaluation.speedup
    if now is not None:
        text += f": {now} of the reference"
        text += f", stored {check.stored.speedup}" if check.stored else ""
    return f"{text}; {check.message}" if check.message else text


def _clean(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
