"""Opens devices, jobs and evaluators for the plans of commands."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ..core.events import Emit
from ..core.files import cache_folder
from ..evaluators.local import LocalEvaluator
from ..evaluators.pipeline.kept_processes import KeptProcesses
from ..evaluators.remote.evaluator import RemoteEvaluator
from ..evaluators.remote.machines import RemoteWorkers
from ..evaluators.settings import Limits, Sampling, Settings
from .devices import choose_device, choose_devices
from .evaluators import Evaluators, Searcher, search_evaluator
from .jobs import Job, find_job, find_joint_job
from .options.groups import Backend, DeviceOptions, MachineOptions, ProblemOptions
from .options.trust import TrustOptions, settings_of

OpenLocal = Callable[[], LocalEvaluator]
"""Opens the evaluator of this machine; the caller closes it."""
OpenEvaluator = Callable[[], LocalEvaluator | RemoteEvaluator]
"""Opens the evaluator of this or other machines; the caller closes it."""
OpenSearcher = Callable[..., Searcher]
"""Opens an evaluator for many configs, with a `WorkingClock` as `clock`; the caller closes it."""


class Runtime:
    """Opens what a plan needs, and keeps it open until the end of the run.

    `emit` gets remarks and warnings while the plan is made. `kept` lends evaluators their processes, which then outlive
    this runtime. A plan must choose its device first, which also connects to other machines if they evaluate.
    """

    remote: RemoteWorkers | None = None
    """The other machines that evaluate, once `device` or `devices` was called; None for this one."""

    def __init__(self, emit: Emit, kept: KeptProcesses | None = None) -> None:
        self.emit = emit
        self._kept = kept
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def where(self) -> str:
        """The other machines' name, '' for this one."""
        return self.remote.label if self.remote else ""

    def device(self, options: DeviceOptions) -> str:
        """Return the requested device, or the best one. Raises `DeviceError` where it, or its machine, is not there."""
        (device,) = self._checked(options, lambda backend: [choose_device(options.device, backend)])
        return device

    def devices(self, options: DeviceOptions) -> list[str]:
        """Return the devices of a list such as 'cuda:0,cuda:1'. Raises as `device` does."""
        return self._checked(options, lambda backend: choose_devices(options.device, backend))

    def _checked(self, options: DeviceOptions, choose: Callable[[Backend | None], list[str]]) -> list[str]:
        """Return the other machines' device, or the chosen ones; the options may refuse one."""
        wanted = options.remote if isinstance(options, MachineOptions) else None
        if wanted is not None:
            self.remote = self._stack.enter_context(RemoteWorkers(wanted))
            self.remote.check()
        backend = options.backend if isinstance(options, ProblemOptions) else None
        devices = choose(backend) if self.remote is None else [self.remote.device]
        for device in devices:
            options.check_device(device)
        return devices

    def job(self, options: ProblemOptions, reference: str, device: str) -> Job:
        """Return a kernel with its problem. Raises `KernelwrightError` for all usage errors."""
        return find_job(options, reference, device, self.where)

    def joint_job(self, options: ProblemOptions, reference: str, device: str) -> Job:
        """Return a kernel with its problem at all its recorded workloads, unless the options name one."""
        return find_joint_job(options, reference, device, self.where, self.emit)

    def local_evaluator(self, device: str, options: TrustOptions, read_code: bool = False) -> OpenLocal:
        """Return a function that opens the evaluator of this machine. Options are read now."""
        settings = settings_of(options, Settings(read_code=read_code))
        if isinstance(options, MachineOptions) and options.gpu is not None:
            settings = replace(settings, described_gpu=options.gpu.upper())
        return partial(LocalEvaluator, device, settings, memory=cache_folder(), kept=self._kept)

    def evaluator(self, device: str, options: TrustOptions) -> OpenEvaluator:
        """Return a function that opens the evaluator of this or other machines. Options are read now."""
        if self.remote is None:
            return self.local_evaluator(device, options)
        return partial(self.remote.evaluator, settings_of(options, Settings()))

    def searcher(
        self,
        devices: list[str],
        options: TrustOptions,
        tuner: str,
        compile_s: float,
        compilers: int | None = None,
        sampling: Sampling | None = None,
    ) -> OpenSearcher:
        """Return a function that opens an evaluator for many configs (`search_evaluator`). Options are read now."""
        from ..tuners import catalogue  # with it comes numpy

        settings = settings_of(options, Settings(limits=Limits(compile_s=compile_s)))
        opened = partial(search_evaluator, devices, compilers, catalogue.adaptive(tuner), settings, self.remote)
        opened = partial(opened, kept=self._kept)
        return opened if sampling is None else partial(opened, sampling=sampling)

    def evaluators(
        self, device: str, lanes: int, options: TrustOptions, read_code: bool = False
    ) -> Callable[[], Evaluators]:
        """Return a function that opens the evaluators of a run with this many lanes. Its caller closes them."""
        settings = settings_of(options, Settings(read_code=read_code))
        return partial(Evaluators, device, lanes, settings, self.remote, self._kept)
