"""The result of a run of `optimize`: its figures and files, and their description."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.markup import escape
from rich.text import Text

from ...core import Budget, FinishedRecord, Speedup
from ...core.baselines import COMPILE, BesideCompile, against_text, beside_compile
from ...runtime import result
from ...runtime.command import search_code
from ...runtime.jobs import Job
from ...runtime.result import beside_reference, busy, file_lines, library_line, sanitizer_line, workload_lines
from .by_size import SizedKernel

if TYPE_CHECKING:
    from ...agent.loop import Outcome
else:  # the evaluators' processes start before the agent is imported
    Outcome = Any


class Result(result.Result):
    """A verified result, or the start kernel if nothing was faster, with its turns and costs."""

    inlined: ClassVar = ("finished",)
    job: result.ForPython[Job]
    outcome: result.ForPython[Outcome]
    kernel: result.ForPython[Path | None]
    """File of the fastest verified kernel; None if nothing was faster, or if it was not to be saved."""
    history: result.ForPython[Path]
    journal: result.ForPython[Path]
    """The file with each trial."""
    target: result.ForPython[float | None]
    """None if the run had no target."""
    model: result.ForPython[str]
    """The proposer: a model, or 'rules'."""
    spent: result.ForPython[Budget]
    """Tokens and dollars of all exchanges with models."""
    solution: result.ForPython[Path | None] = None
    """The same kernel as a Solution in the dataset of a recorded workload."""
    patch: result.ForPython[Path | None] = None
    """Patch of the user's own files; None if none was requested, or nothing became faster."""

    rule: result.ForPython[Path | None] = None
    """File of the rule that chooses among `by_size`; None if no size is free."""
    by_size: result.ForPython[tuple[SizedKernel, ...]] = ()
    """Files for the parts of a free size's range."""

    @result.computed
    def finished(self) -> FinishedRecord:
        """The end of the run, from the last record of its journal."""
        outcome, gain = self.outcome, self.outcome.gain
        return FinishedRecord(
            problem=self.job.problem.id,
            device=outcome.best.environment.get("device", self.job.device),
            backend=self.job.backend,
            workload=self.job.problem.workload,
            target_speedup=self.target,
            target_reached=self.reached,
            against=self.job.against,
            precision=self.job.precision.value,
            verified=outcome.verified,
            beside_compile=self.beside_compile,
            start=outcome.start.metrics(),
            best=outcome.best.metrics(),
            faster=self.faster,
            gain=gain.ratio if gain else None,
            gain_interval=(gain.low, gain.high) if gain else None,
            model=self.model,
            iterations=max((turn.number for turn in outcome.turns), default=0),
            turns=len(outcome.turns),
            tokens=self.spent.tokens or 0,
            dollars=round(self.spent.dollars or 0.0, 6),
            stopped=outcome.stopped,
            cut_short=outcome.cut_short,
            kernel=str(self.kernel) if self.kernel else None,
            solution=str(self.solution) if self.solution else None,
            history=str(self.history),
            patch=str(self.patch) if self.patch else None,
        )

    @property
    def verified(self) -> bool:
        """Whether the best kernel was correct and timed again in a fresh process."""
        return self.outcome.verified

    @property
    def speedup(self) -> float | None:
        """Speedup of the best kernel over the reference; None if it was not timed."""
        return self.outcome.best.speedup.ratio if self.outcome.best.speedup else None

    @property
    def faster(self) -> bool:
        """Whether the result is significantly faster than the start.

        If the run made the first kernel itself, it need only be faster than the target's baseline.
        """
        return self.outcome.faster or self.patch is not None or faster_first(self.job, self.outcome)

    @property
    def reached(self) -> bool | None:
        """Whether the verified speedup over the target's baseline is at least the target; None without a target."""
        return self.outcome.reached(self.target, self.job.against)

    @property
    def beside_compile(self) -> BesideCompile | None:
        """Comparison of the verified kernel with `torch.compile`; None if that was not timed."""
        if not (self.job.beside_compile and self.outcome.verified):
            return None
        return beside_compile(self.outcome.best.metrics().interval_compile)

    @property
    def exit_code(self) -> int:
        """0 with a faster kernel, 1 if none is verified."""
        return search_code(self.verified, self.faster)

    @property
    def failure(self) -> str:
        """Why there is no verified kernel."""
        outcome = self.outcome
        if outcome.verified and outcome.best.speedup is not None and outcome.start.latency_ms is not None:
            return ""
        return f"{escape(self.job.problem.id)}: {escape(outcome.stopped)}"

    @property
    def log(self) -> str:
        """Output of the best kernel, if it failed."""
        return self.outcome.best.log if self.failure else ""

    @property
    def warnings(self) -> list[str]:
        """Other processes that disturbed the final check."""
        contention = self.outcome.best.contention
        return [] if contention is None else [busy(contention)]

    @property
    def next_step(self) -> str:
        """The next step of an agent with the kernel."""
        if not self.verified:
            return "nothing was verified: evaluate the unmodified kernel first"
        if not self.faster:
            return "no rule made it faster: profile it for what to change by hand"
        return "take over the kernel's file; profile it for what is left, and stop at the roofline"

    def lines(self) -> Iterator[Any]:
        """Times, comparison with target and torch.compile, and files."""
        outcome = self.outcome
        latency, gain, start_ms = outcome.best.latency_ms or 0.0, outcome.gain, outcome.start.latency_ms
        against = against_text(self.job.against, self.job.precision)
        if outcome.faster:
            times = f"[bold]{latency:.3f} ms[/]"
            if gain is not None:
                times = f"{start_ms:.3f} ms -> {times}, {escape(times_text(gain))} as the start"
        else:
            times = f"[bold]nothing faster was found[/] than the start's {start_ms:.3f} ms"
        yield Text.from_markup(
            f"[bold]{escape(self.job.problem.id)}[/]: {times}; [bold]{escape(str(outcome.best.speedup))}[/] "
            f"against the reference{escape(beside_reference(outcome.best))}"
        )
        if (compiled := compile_line(self)) is not None:
            yield Text.from_markup(compiled)
        remarks = exactness_line(self), library_line(outcome.best), sanitizer_line(outcome.best)
        yield from filter(None, remarks)
        yield from workload_lines(outcome.best.workloads, outcome.start.workloads if outcome.faster and gain else {})
        wanted = ""
        if self.target is not None:
            mark = "[green]reached[/]" if self.reached else "[yellow]not reached[/]"
            over = "" if against == "the reference" else f" against {against}"
            wanted = f"target {self.target:g}x{over} {mark}; "
        yield Text.from_markup(f"{wanted}stopped: {escape(outcome.stopped)}")
        yield from (escape(item.in_words) for item in self.by_size)
        if self.rule is not None:
            deployed = any(item.path is not None for item in self.by_size)
            named = "kernels and rule of the range, for 'kernelwright deploy'" if deployed else "rule of the range"
            yield f"{named}: {escape(str(self.rule.parent if deployed else self.rule))}"
        yield from file_lines(kernel=self.kernel, solution=self.solution, patch=self.patch, history=self.history)


def times_text(gain: Speedup) -> str:
    """'2.48 times as fast [2.41, 2.55]'."""
    return f"{gain.ratio:.2f} times as fast [{gain.low:.2f}, {gain.high:.2f}]"


def compile_line(result: Result) -> str | None:
    """Describe a result compared with torch.compile; None if that was not requested."""
    best = result.outcome.best.speedup_against(COMPILE)
    if result.beside_compile is None:
        return None
    if best is None:
        return "torch.compile does not compile the reference, so there is nothing to compare with"
    texts = {
        "faster": f"[green]{best.ratio:.2f} times as fast as torch.compile[/]",
        "as fast": f"as fast as torch.compile ({best.ratio:.2f}x)",
        "slower": f"[yellow]slower than torch.compile ({best.ratio:.2f}x)[/], which serves better here",
    }
    return texts[result.beside_compile]


def exactness_line(result: Result) -> str | None:
    """Return a remark if the result computes in a lower precision than the reference, otherwise None."""
    checked = result.outcome.best.correctness
    return f"remark: {checked.less_exact}" if checked is not None and checked.less_exact is not None else None


def faster_first(job: Job, outcome: Outcome) -> bool:
    """Return whether the best kernel is one that the run made itself as a start, and beats the target's baseline."""
    over = outcome.best.speedup_against(job.against) if job.first and outcome.verified else None
    return over is not None and over.low > 1.0
