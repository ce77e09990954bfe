"""Opens devices, jobs and evaluators for the plans of commands."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

from ..api.devices import choose_device, choose_devices
from ..api.evaluators import Searcher, joined, search_evaluator
from ..api.jobs import Job, find_job, find_joint_job
from ..api.options.groups import DeviceOptions, MachineOptions, ProblemOptions
from ..api.options.trust import TrustOptions, settings_of
from ..core.events import Emit
from ..core.files import cache_folder
from ..evaluators.local import LocalEvaluator
from ..evaluators.remote.machines import Remote
from ..evaluators.settings import Limits, Sampling, Settings

OpenLocal = Callable[[], LocalEvaluator]
"""Opens the evaluator of this machine; whoever calls it closes it."""
OpenSearcher = Callable[..., Searcher]
"""Opens an evaluator for many configs, with a `WorkingClock` as `clock`; whoever calls it closes it."""


class Runtime:
    """What a plan is made with, and what it needs stays open until its end.

    `emit` tells of remarks and warnings while the plan is made.
    """

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def remote(self, options: MachineOptions) -> Remote | None:
        """Return the other machines that evaluate, or None for this one. Raises `DeviceError` where they cannot."""
        return self._stack.enter_context(joined(options))

    def device(self, options: DeviceOptions) -> str:
        """Return the requested device, or the best one. Raises `DeviceError` where it does not exist."""
        return choose_device(options)

    def devices(self, options: DeviceOptions, remote: Remote | None = None) -> list[str]:
        """Return the devices of a list such as 'cuda:0,cuda:1'. Raises `DeviceError` where one does not exist."""
        return choose_devices(options, remote)

    def job(self, options: ProblemOptions, reference: str, device: str) -> Job:
        """Return a kernel with its problem. Every mistake is a `KernelwrightError`."""
        return find_job(options, reference, device)

    def joint_job(self, options: ProblemOptions, reference: str, device: str, remote: Remote | None) -> Job:
        """Return a kernel with its problem at all its recorded workloads, unless the options name one."""
        return find_joint_job(options, reference, device, remote, self.emit)

    def local_evaluator(self, device: str, options: TrustOptions) -> OpenLocal:
        """Return what opens the evaluator of this machine; options are read now."""
        return partial(LocalEvaluator, device, settings_of(options, Settings()), memory=cache_folder())

    def searcher(
        self,
        devices: list[str],
        compilers: int | None,
        adaptive: bool,
        compile_s: float,
        options: TrustOptions,
        remote: Remote | None = None,
        sampling: Sampling | None = None,
    ) -> OpenSearcher:
        """Return what opens an evaluator for many configs (`search_evaluator`); options are read now."""
        settings = settings_of(options, Settings(limits=Limits(compile_s=compile_s)))
        opened = partial(search_evaluator, devices, compilers, adaptive, settings, remote)
        return opened if sampling is None else partial(opened, sampling=sampling)
