"""A run with a free size: few configs of one kernel, and the rule that chooses among them by the size.

Trials are timed at several values of the size. The rule has the fewest configs that lose on average at most `ALLOWED`
against the best trial at each value, as in `tune gemm`. For a user's function only the rule is written: its patch
chooses among the same configs at the function's launches.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core import DEFAULT_WORKLOAD, Config, Evaluation, JointProblem, Judge, Kernel, OptionError, TorchProblem
from ...core.dynamic_size import FreeSize
from ...core.events import Emit, Warned
from ...core.evidence import RULE, with_evidence
from ...core.files import write_whole
from ...core.workload_rows import MOST_LOST
from ...corpus.functions.size_choices import between
from ...runtime.first_kernels import OpenProblem
from ...runtime.jobs import Job
from ...tuners.gemm.cover import cover
from .settings import SessionSettings

if TYPE_CHECKING:
    from ...agent.loop import Outcome

MOST = 4
"""Maximum number of configs."""
ALLOWED = 1 + MOST_LOST


@dataclass(frozen=True)
class SizedConfig:
    """A config, and the part of the range that it serves."""

    serves: FreeSize
    measured: tuple[int, ...]
    """Values in the part at which trials were timed."""
    config: Config

    @property
    def middle(self) -> int:
        """The measured value nearest to the middle of the part, by ratio."""
        wanted = math.sqrt(self.serves.low * self.serves.high)
        return min(self.measured, key=lambda value: abs(math.log(value / wanted)))


@dataclass(frozen=True)
class SizeRule:
    """Which config serves which sizes, and the loss."""

    parts: tuple[SizedConfig, ...]
    slowdown: float
    """Geometric mean, over the measured values, of the time over the best time there."""
    worst: float
    """The largest of these ratios."""


@dataclass(frozen=True)
class SizedKernel:
    """A config, and the file that was written, for a part of the range."""

    serves: FreeSize
    path: Path | None
    """None for a user's function."""
    config: Config
    speedup: float

    @property
    def in_words(self) -> str:
        """'1 <= tokens <= 64: XBLOCK=256, num_warps=4, 1.31x'."""
        values = ", ".join(f"{name}={value}" for name, value in self.config.items()) or "no parameters"
        return f"{self.serves.in_words}: {values}, {self.speedup:.2f}x"


def in_range(settings: SessionSettings, free: FreeSize) -> SessionSettings:
    """Return settings whose problems are judged at several values of a size, with kernels that are correct at all."""

    def joint(problem: TorchProblem) -> JointProblem:
        if problem.package is not None and isinstance(problem, JointProblem) and problem.members:
            problem = problem.at(DEFAULT_WORKLOAD)
        if not problem.has_free_sizes or (isinstance(problem, JointProblem) and problem.package is None):
            raise OptionError(f"`dynamic`: recorded workloads of {problem.id} have sizes of their own", "leave it out")
        if free.name not in problem.integers:
            known = ", ".join(problem.integers) or "none"
            raise OptionError(f"`dynamic`: {problem.id} has no size {free.name}", f"it has {known}")
        if free.name in problem.read_constants:
            raise OptionError(f"`dynamic`: the Model reads {free.name} while it computes", "take it from its inputs")
        return JointProblem.in_range(problem, free)

    def find_job(reference: str) -> Job:
        job = settings.find_job(reference)
        return replace(job, problem=joint(job.problem))

    def find_open(reference: str) -> OpenProblem | None:
        found = settings.find_open(reference)
        return None if found is None else replace(found, problem=joint(found.problem))

    return replace(settings, find_job=find_job, find_open=find_open)


def rule_of(problem: JointProblem, best: Evaluation, tried: Sequence[Evaluation]) -> SizeRule:
    """Return the rule of few configs among the trials of one kernel; only the best if no set serves all sizes."""
    assert problem.free is not None
    free = problem.free
    times: dict[int, dict[Config, float]] = {int(member.sizes[free.name]): {} for member in problem.members.values()}
    for evaluation in (*tried, best):
        for name, row in evaluation.workloads.items() if evaluation.ok else ():
            if row.latency_ms is not None and name in problem.members:
                value = int(problem.members[name].sizes[free.name])
                times[value][Config(evaluation.config)] = row.latency_ms
    covers = [item for most in range(1, MOST + 1) if (item := cover(times, most)) is not None]
    found = next((item for item in covers if item.slowdown <= ALLOWED), covers[-1] if covers else None)
    if found is None:
        return SizeRule((SizedConfig(free, tuple(sorted(times)), Config(best.config)),), 1.0, 1.0)
    parts: list[SizedConfig] = []
    for value in sorted(times):
        config = found.chosen[value]
        if parts and parts[-1].config == config:
            parts[-1] = replace(parts[-1], measured=(*parts[-1].measured, value))
        else:
            parts.append(SizedConfig(free, (value,), config))
    return SizeRule(tuple(_with_limits(parts, free)), found.slowdown, found.worst)


def _with_limits(parts: Sequence[SizedConfig], free: FreeSize) -> Sequence[SizedConfig]:
    """Return the parts with limits half way between measured values, as in patches."""
    low, found = free.low, []
    for place, part in enumerate(parts):
        last = place == len(parts) - 1
        high = free.high if last else between(part.measured[-1], parts[place + 1].measured[0])
        found.append(replace(part, serves=FreeSize(free.name, low, high)))
        low = high + 1
    return found


def write_by_size(
    folder: Path,
    problem: JointProblem,
    outcome: Outcome,
    start: Kernel,
    tried: Sequence[Evaluation],
    judge: Judge,
    emit: Emit,
) -> tuple[Path | None, tuple[SizedKernel, ...]]:
    """Check each config again in the middle of its part, and write a kernel file for each part and the rule.

    No kernel files are written for a user's function, since they would need its package.

    A config that fails its check is left out, with a warning: the reference serves its part. If all fail, nothing is
    written, and the files of an earlier run stay.
    """
    assert problem.free is not None
    free, best = problem.free, outcome.best.model_copy(update={"config": dict(outcome.kernel.config)})
    rule, written, rows = rule_of(problem, best, tried), list[SizedKernel](), list[dict[str, Any]]()
    texts: dict[Path, str] = {}
    members = {int(member.sizes[free.name]): member for member in problem.members.values()}
    for part in rule.parts:
        member, kernel = members[part.middle], outcome.kernel.bind(part.config)
        first, *others = judge.contest(member, [start] if kernel.digest == start.digest else [start, kernel])
        checked = others[0] if others else first
        if not checked.ok or checked.speedup is None:
            emit(Warned(f"{part.serves.in_words} is left out: {checked.message or checked.status} in its last check"))
            continue
        serves = [free.name, part.serves.low, part.serves.high]
        path = folder / f"{free.name}_{part.serves.low}_{part.serves.high}.py" if problem.package is None else None
        if path is not None:
            texts[path] = with_evidence(kernel.source, member, checked, first, serves=serves)
        written.append(SizedKernel(part.serves, path, part.config, checked.speedup.ratio))
        rows.append(
            {
                "from": part.serves.low,
                "to": part.serves.high,
                **({"kernel": path.name} if path is not None else {}),
                "config": dict(part.config),
                "measured_at": part.middle,
                "latency_ms": checked.latency_ms,
                "speedup": round(checked.speedup.ratio, 4),
            }
        )
    if not written:
        return None, ()
    for path, text in texts.items():
        write_whole(path, text)
    for earlier in set(folder.glob("*.py")) - {*texts}:
        earlier.unlink()
    document = {"size": free.name, "from": free.low, "to": free.high, "rule": rows}
    lost = {"slowdown": round(rule.slowdown, 4), "worst": round(rule.worst, 4), "timed_at": sorted(members)}
    path = write_whole(folder / RULE, json.dumps({**document, **lost}, indent=2) + "\n")
    return path, tuple(written)


def of_rule(best: Evaluation, tried: Sequence[Evaluation], by_size: Sequence[SizedKernel]) -> list[Evaluation]:
    """Return the trials of a rule's configs, first the one that is fastest over the whole range.

    If no config passed its last check, return only the best trial.
    """
    configs = {item.config for item in by_size}
    rows = {Config(item.config): item for item in (*tried, best) if item.ok and Config(item.config) in configs}
    return sorted(rows.values(), key=lambda item: item.latency_ms or math.inf) or [best]
