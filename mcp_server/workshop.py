"""What all tools share: the folder, the limits, the device, the runs, and how a job is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio

from ..api.options.server import ServerOptions
from ..core import KernelwrightError
from .limits import ToolLimits
from .messages import Done, Request, Step
from .places import Root
from .process import JobBroke, OutOfTime, run_job
from .progress import Progress, Report
from .results.reading import Explanation
from .runs import Runs

KEPT = 64
"""Explanations of failures, of as many kernels."""


class Workshop:
    """One for all clients of a server: one job at a time has the device."""

    def __init__(self, options: ServerOptions, sandbox: str) -> None:
        self.root = Root(options.root)
        self.limits = ToolLimits(options.max_trials, options.max_seconds)
        self.runs = Runs(self.root, options.results)
        self.failures: dict[str, Explanation] = {}
        """By the name of the kernel, the latest last."""
        self._device = options.device
        self._sandbox = sandbox
        self._quick = options.quick
        self._lock = anyio.Lock()

    def subject(
        self,
        kernel: str,
        problem: str | None,
        workload: str | None,
        backend: str | None,
        reference: str | None = None,
        inputs: str | None = None,
    ) -> dict[str, Any]:
        """The options of `api` that say what is measured, every path in them confined."""
        found = self.root.reference(kernel, "kernel")
        return {
            "kernel": found,
            "problem": self.root.problem_of(found, problem),
            "workload": workload,
            "backend": backend,
            "reference": None if reference is None else self.root.target(reference, "reference"),
            "inputs": None if inputs is None else self.root.target(inputs, "inputs"),
            **self.measured,
        }

    @property
    def measured(self) -> dict[str, Any]:
        """The options of `api` that no call chooses: where, and how thoroughly. Guards are `api`'s default."""
        return {"device": self._device, "sandbox": self._sandbox, "quick": self._quick}

    async def do(
        self, job: str, options: Mapping[str, Any], seconds: float, report: Report, kernel: str = "", run: str = ""
    ) -> Done:
        """Do a job in a process of its own as soon as the device is free; it has `seconds` from then on.

        Raises `KernelwrightError` for a mistake of the caller's and where the time is over, `JobBroke` for ours.
        """
        given = {"options": dict(options), "kernel": kernel, "run": run, "root": str(self.root.folder)}
        request, progress = Request(job=job, options=given), Progress(report)
        done, error = None, None
        async with anyio.create_task_group() as group:
            group.start_soon(progress.beat)
            try:
                done = await self._with_device(request, seconds, progress)
            except (KernelwrightError, JobBroke) as raised:  # a task group would wrap it
                error = raised
            except OutOfTime:
                error = KernelwrightError(
                    f"{job} was ended after {seconds:g} s", "ask for less work, or for more `seconds` if they allow it"
                )
            group.cancel_scope.cancel()
        if error is not None:
            raise error
        assert done is not None
        self._remember(kernel, done.explanation)
        return done

    async def _with_device(self, request: Request, seconds: float, progress: Progress) -> Done:
        if self._lock.locked():
            await progress.tell(Step(done=0, total=None, text="waiting for the device: another call has it"))
        async with self._lock:
            return await run_job(request, seconds, progress.tell)

    def _remember(self, kernel: str, explanation: Explanation | None) -> None:
        self.failures.pop(kernel, None)
        if explanation is not None:
            self.failures[kernel] = explanation
            for oldest in list(self.failures)[:-KEPT]:
                del self.failures[oldest]
