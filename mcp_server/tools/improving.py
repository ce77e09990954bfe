"""`tune` and `optimize`: make a kernel faster, and leave a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from ..limits import FINISH_S
from ..results.runs import Optimized, Tuned
from ..runs import ENDED, FINISHED
from ..workshop import Workshop
from .arguments import (
    Backend,
    Call,
    Inputs,
    Kernel,
    Problem,
    Reference,
    Seconds,
    Trials,
    Value,
    Workload,
    reporting,
)

Tuner: TypeAlias = Annotated[
    Literal["portfolio", "xgboost", "hill_climb", "annealing", "random", "grid"],
    Field(description="How configs are chosen; the portfolio suits most spaces."),
]


class ImprovingTools:
    """Tools whose results are in the server's folder."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop

    async def tune(
        self,
        call: Call,
        kernel: Kernel,
        space: Annotated[
            dict[str, list[Value]] | None,
            Field(description="Constants and the values to try; by default the kernel's own SEARCH_SPACE."),
        ] = None,
        constraints: Annotated[
            list[str] | None, Field(description='Each config must satisfy these, such as "BLOCK_M * BLOCK_N <= 8192".')
        ] = None,
        problem: Problem = None,
        workload: Workload = None,
        backend: Backend = None,
        reference: Reference = None,
        inputs: Inputs = None,
        tuner: Tuner = "portfolio",
        trials: Trials = None,
        seconds: Seconds = None,
        seed: Annotated[int, Field(description="Of the tuner's choices.")] = 0,
    ) -> Tuned:
        """Search the values of a correct kernel's constants, and write the fastest into a copy of the kernel."""
        workshop = self._workshop
        limit = workshop.limits.seconds_of(seconds)
        options = workshop.subject(kernel, problem, workload, backend, reference, inputs) | {
            "params": space,
            "constraint": constraints or [],
            "tuner": tuner,
            "trials": workshop.limits.trials_of(trials),
            "seconds": limit,
            "seed": seed,
        }
        return Tuned.model_validate(await self._run("tune", kernel, options, limit, call))

    async def optimize(
        self,
        call: Call,
        kernel: Kernel,
        target_speedup: Annotated[float, Field(description="Stop at this speedup over the reference.")] = 1.5,
        max_iterations: Annotated[int | None, Field(description="At most this many turns.")] = None,
        problem: Problem = None,
        workload: Workload = None,
        backend: Backend = None,
        reference: Reference = None,
        inputs: Inputs = None,
        trials: Trials = None,
        seconds: Seconds = None,
    ) -> Optimized:
        """Rewrite a kernel by the built-in rules over several turns, tune it, and write the fastest verified one."""
        workshop = self._workshop
        limit = workshop.limits.seconds_of(seconds)
        options = workshop.subject(kernel, problem, workload, backend, reference, inputs) | {
            "model": "rules",  # the model is the caller: nothing here spends its money
            "target_speedup": target_speedup,
            "max_iterations": max_iterations,
            "max_trials": workshop.limits.trials_of(trials),
            "time_limit": limit,
        }
        return Optimized.model_validate(await self._run("optimize", kernel, options, limit, call))

    async def _run(
        self, job: str, kernel: str, options: Mapping[str, Any], seconds: float, call: Call
    ) -> dict[str, Any]:
        """Do a job that leaves a run, and write down how it ended."""
        workshop = self._workshop
        run = workshop.runs.begin(job, kernel)
        state, result = ENDED, None
        try:
            given = {**options, "results": str(run.folder)}
            done = await workshop.do(job, given, seconds + FINISH_S, reporting(call), kernel, run.id)
            state, result = FINISHED, done.result
            return done.result
        finally:
            run.end(state, result)
