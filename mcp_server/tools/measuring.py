"""`evaluate`, `profile` and `list_slow`: what a kernel is worth now."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..results.bottleneck import Profiled
from ..results.listing import SlowList
from ..results.verdict import Verdict
from ..workshop import Workshop
from .arguments import Backend, Call, Inputs, Kernel, Problem, Reference, Seconds, Workload, reporting


class MeasuringTools:
    """Tools that change nothing but the caches."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop

    async def evaluate(
        self,
        call: Call,
        kernel: Kernel,
        problem: Problem = None,
        workload: Workload = None,
        backend: Backend = None,
        reference: Reference = None,
        inputs: Inputs = None,
        compare_compile: Annotated[bool, Field(description="Time torch.compile of the reference too.")] = False,
        seconds: Seconds = None,
    ) -> Verdict:
        """Check a kernel against its PyTorch reference on new inputs and, if it is correct, time both interleaved."""
        workshop = self._workshop
        options = workshop.subject(kernel, problem, workload, backend, reference, inputs)
        options["baseline"] = ["compile"] if compare_compile else []
        limit = workshop.limits.seconds_of(seconds)
        done = await workshop.do("evaluate", options, limit, reporting(call), kernel)
        return Verdict.model_validate(done.result)

    async def profile(
        self,
        call: Call,
        kernel: Kernel,
        problem: Problem = None,
        workload: Workload = None,
        backend: Backend = None,
        reference: Reference = None,
        inputs: Inputs = None,
        seconds: Seconds = None,
    ) -> Profiled:
        """Find what bounds a correct kernel: its time against the roofline's floor, the bottleneck, the evidence."""
        workshop = self._workshop
        options = workshop.subject(kernel, problem, workload, backend, reference, inputs)
        limit = workshop.limits.seconds_of(seconds)
        done = await workshop.do("profile", options, limit, reporting(call), kernel)
        return Profiled.model_validate(done.result)

    async def list_slow(
        self,
        call: Call,
        threshold: Annotated[float, Field(description="List kernels with a smaller speedup over the reference.")] = 0.8,
        folder: Annotated[
            str | None, Field(description="The kernels in this folder and below it; by default the shipped ones.")
        ] = None,
        problem: Problem = None,
        backend: Backend = None,
        seconds: Seconds = None,
    ) -> SlowList:
        """Rank kernels by measured speedup, the slowest first; what has a current record is not measured again."""
        workshop = self._workshop
        place = None
        if folder is not None:
            place = workshop.root.directory(folder, "folder")
            workshop.root.check_kernels(place)
        options = {
            "threshold": threshold,
            "folder": None if place is None else str(place),
            "problem": None if problem is None else workshop.root.reference(problem, "problem"),
            "backend": backend,
            **workshop.measured,
        }
        limit = workshop.limits.seconds_of(seconds)
        done = await workshop.do("list_slow", options, limit, reporting(call))
        return SlowList.model_validate(done.result)
