"""`optimize --kernel REF`: one kernel, from start to verified end."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..agent.loop import Optimization, Outcome
from ..agent.models.choice import Kind
from ..agent.results import Results
from ..agent.stopping import StoppingCriteria
from ..agent.turn import Turn
from ..agent.workbench import Workbench
from ..core import Budget, Evaluation, Journal, JournalError, Language, OptionError, TorchProblem, read_journal
from ..core.space_inference import declared_space
from ..evaluators.remote.machines import Remote
from . import wiring
from .progress import observer_for
from .proposers import Proposers
from .render import Screen
from .request import Request


@dataclass(frozen=True)
class Finished:
    """A run that ended, and what it left."""

    job: wiring.Job
    outcome: Outcome
    kernel: Path | None
    history: Path | None
    target: float
    model: str
    """Who proposed."""
    spent: Budget
    """Tokens and dollars of all exchanges with models."""

    @property
    def exit_code(self) -> int:
        return 0 if self.outcome.verified else 1

    def summary(self) -> dict[str, Any]:
        """The object that --json prints."""
        outcome = self.outcome
        return {
            "problem": self.job.problem.id,
            "device": outcome.best.environment.get("device", self.job.device),
            "backend": self.job.backend,
            "workload": self.job.problem.workload,
            "target_speedup": self.target,
            "target_reached": outcome.reached(self.target),
            "verified": outcome.verified,
            "start": metrics(outcome.start),
            "best": metrics(outcome.best),
            "model": self.model,
            "iterations": max((turn.number for turn in outcome.turns), default=0),
            "turns": len(outcome.turns),
            "tokens": self.spent.tokens,
            "dollars": round(self.spent.dollars or 0.0, 6),
            "stopped": outcome.stopped,
            "cut_short": outcome.cut_short,
            "kernel": str(self.kernel) if self.kernel else None,
            "history": str(self.history) if self.history else None,
        }


def metrics(evaluation: Evaluation) -> dict[str, Any]:
    """Latency and speedup of an evaluation, None where it was not timed."""
    speedup = evaluation.speedup
    return {
        "status": evaluation.status.value,
        "latency_ms": evaluation.latency_ms,
        "reference_ms": evaluation.reference.median_ms if evaluation.reference else None,
        "speedup": speedup.ratio if speedup else None,
        "interval": [speedup.low, speedup.high] if speedup else None,
        "contention": evaluation.contention,
    }


def run_optimize(request: Request) -> int:
    """Optimize one kernel; the exit code."""
    with request.machines.joined(request.device) as remote:
        return _optimize(request, remote)


def _optimize(request: Request, remote: Remote | None) -> int:
    screen = Screen(request)
    device = wiring.choose_device(request, remote)
    assert request.kernel is not None
    job = wiring.job(request, request.kernel, device, remote)
    must_be_timed(job)
    proposers = Proposers(request, screen)
    results = Results(request.results)
    with wiring.Evaluators(device, request.beam, request.trust, remote) as evaluators:
        finished = optimize_one(request, job, evaluators, proposers, results, screen)
    screen.finished(finished)
    if request.json:
        print(json.dumps(finished.summary()), file=sys.stdout)
    return finished.exit_code


def optimize_one(
    request: Request,
    job: wiring.Job,
    evaluators: wiring.Evaluators,
    proposers: Proposers,
    results: Results,
    screen: Screen,
) -> Finished:
    """Run the loop on one job and write its files."""
    must_be_timed(job)
    _ = declared_space(job.kernel, job.problem)  # a mistake in it is told now, not after minutes of work
    transcript = results.transcript_path(job.problem, job.backend)
    if (
        proposers.choice.kind is Kind.REPLAY
        and not request.resume
        and proposers.choice.path.resolve() == transcript.resolve()
    ):
        raise OptionError(f"--model {proposers.name} is what this run would write; choose another --results")
    if request.resume:
        proposers.check(job, transcript)
    else:
        # What an earlier run left stays where it is until the model is known to answer.
        checked = transcript.with_suffix(".check.jsonl")
        try:
            checked.unlink(missing_ok=True)
            proposers.check(job, checked)
            results.set_aside(job.problem, job.backend)
            if checked.exists():
                checked.rename(transcript)
        finally:
            checked.unlink(missing_ok=True)
    path = results.journal_path(job.problem, job.backend)
    with Journal(path) as journal, contextlib.ExitStack() as stack:
        same_run(journal, job, proposers.name)
        budget = Budget(seconds=request.time_limit)
        goal = StoppingCriteria(
            request.target_speedup, request.max_iterations, request.min_improvement, beam=request.beam, budget=budget
        )
        observer = observer_for(screen, job, goal, proposers.choice.is_model)
        stack.callback(results.save_conversation, job.problem, job.backend)
        proposing = stack.enter_context(proposers.open(job, transcript, observer))
        workbench = Workbench(job.problem, evaluators.pool, evaluators.searcher, journal, observer)
        run = Optimization(
            workbench, job.kernel, proposing.proposer, goal, observer, partial(keep, journal), proposing.cost
        )
        outcome = run.run()
        kernel = None
        if request.save and outcome.verified and outcome.best.speedup is not None:
            kernel = results.save_kernel(job.problem, outcome.kernel, outcome.best, outcome.start)
        history = results.save_history(job.problem, job.backend, outcome.turns)
        finished = Finished(job, outcome, kernel, history, request.target_speedup, proposers.name, proposing.spent())
        journal.append({"kind": "finished", **finished.summary()})
        return finished


def keep(journal: Journal, turn: Turn) -> None:
    """Write a turn down, unless the run that is resumed did; one that was cut off and is now whole is written anew."""
    record = json.loads(json.dumps({"kind": "turn", **turn.record()}))
    what = ("iteration", "lane", "attempts", "kernel", "improved")  # a resumed run spends other seconds on the same
    if all(any(known.get(name) != record[name] for name in what) for known in journal.of_kind("turn")):
        journal.append(record)


def must_be_timed(job: wiring.Job) -> None:
    """Raise `OptionError` for a kernel that the device can check but not time."""
    if job.kernel.language is Language.TRITON and job.device == wiring.CPU:
        raise OptionError(
            f"{job.reference}: a Triton kernel can be checked on a CPU but not timed, so there is nothing to optimize "
            "by; use --backend tilelang_cpu, or a CUDA device ('kernelwright evaluate' checks it)"
        )


def identity(job: wiring.Job) -> dict[str, str]:
    """What must be the same for a run to go on from another's journal."""
    return {
        "problem": job.problem.id,
        "reference": job.problem.digest,
        "sizes": job.problem.sizes_key,
        "kernel": job.kernel.digest,
        "device": job.label,
        # What passed under other rules, or was timed otherwise, is no verdict for this run.
        "allow_torch": job.trust.allow_torch.value,
        "graph": str(job.trust.graph),
    }


def same_run(journal: Journal, job: wiring.Job, model: str) -> None:
    """Write what this run is, or refuse a journal that is of another."""
    known = next(journal.of_kind("run"), None)
    if known is None:
        journal.append({"kind": "run", **identity(job), "backend": job.backend, "model": model})
    elif different := [name for name, value in identity(job).items() if known.get(name) != value]:
        raise JournalError(
            f"{journal.path} is of another run: {', '.join(different)} changed; leave --resume out to start anew"
        )


def earlier_summary(path: Path, job: wiring.Job, target: float) -> dict[str, Any] | None:
    """The summary of the same run, if it has finished with a verified kernel and nothing cut it short; else None."""
    records = read_journal(path) if path.exists() else []
    known = next((record for record in records if record.get("kind") == "run"), {})
    finished = [record for record in records if record.get("kind") == "finished"]
    same = all(known.get(name) == value for name, value in identity(job).items())
    if not (finished and same and finished[-1]["verified"] and finished[-1]["target_speedup"] == target):
        return None
    if finished[-1].get("cut_short"):
        return None
    return {k: v for k, v in finished[-1].items() if k != "kind"}


def short(problem: TorchProblem) -> str:
    """`level2/2_10.py`: how the problem's kernel is named in lists."""
    return f"{problem.id}.py"
