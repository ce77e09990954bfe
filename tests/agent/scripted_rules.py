"""Rules that are made up, and runs with them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from kernelwright.agent.loop import Outcome
from kernelwright.agent.rule_proposer import RuleProposer
from kernelwright.agent.rules import Machine, NotApplicableError, Rewritten
from kernelwright.agent.stopping import StoppingCriteria
from kernelwright.agent.turn import Turn
from kernelwright.core import Kernel, Parameter, PythonKernel

from ..fakes import kernel
from .made_up import Scripted, run

START = kernel(20.0)


@dataclass(frozen=True)
class Times:
    """Makes a kernel so many times slower, once; `brings` is a parameter that comes with it."""

    name: str
    factor: float
    work: str = "both"
    category: str = "compute"
    why: str = "it is made up"
    brings: Parameter | None = None
    constraints: tuple[str, ...] = ()
    broken: bool = False
    excludes: tuple[str, ...] = ()
    applied: list[str] = field(default_factory=list, compare=False)
    """What it was applied to, by their constants."""

    @property
    def constant(self) -> str:
        return self.name.upper()

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten:
        if self.broken:
            raise AssertionError("a form that the rule did not foresee")
        self.applied.append(" ".join(kernel.constants))
        if taken := {self.constant, *self.excludes} & {*kernel.constants}:
            raise NotApplicableError(f"the kernel has {', '.join(sorted(taken))}")
        after = kernel.bind({"RESULT": kernel.constants["RESULT"] * self.factor})
        lines = [after.source.rstrip("\n"), f"{self.constant} = 1"]
        if self.brings is not None:
            lines.append(f"{self.brings.name} = {self.brings.default}")
        after = replace(after, source="\n".join(lines))
        return Rewritten(after, "done", (self.brings,) if self.brings else (), self.constraints)


def optimized(folder: Path, *rules: Times, beam: int = 1, iterations: int = 9, start: Kernel = START) -> Outcome:
    criteria = StoppingCriteria(target_speedup=1e9, max_iterations=iterations, min_improvement=0.0, beam=beam)
    return run(folder, start, RuleProposer(Machine(cores=2), rules), Scripted(), criteria)


def strategies(outcome: Outcome) -> list[str]:
    return [f"{turn.number}.{turn.lane} {turn.strategy}" for turn in outcome.turns]


def tried(turn: Turn) -> dict[str, float]:
    """The gain of each change that was tried, by its name."""
    return {attempt.proposal.strategy: round(attempt.gain or 0.0, 2) for attempt in turn.tried if attempt.proposal}
