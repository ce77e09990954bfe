"""The evaluators of a command, for this machine and for others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ..core import DeviceError, Evaluator, Judge, Screener
from ..core.environment import cores
from ..core.files import cache_folder
from ..evaluators.local import LocalEvaluator
from ..evaluators.multi_device import MultiDeviceEvaluator
from ..evaluators.pipeline.kept_processes import KeptProcesses
from ..evaluators.remote.evaluator import RemoteEvaluator
from ..evaluators.remote.machines import RemoteWorkers
from ..evaluators.sandbox.containment import contain
from ..evaluators.settings import Sampling, Sandbox, SearchSettings, Settings
from ..evaluators.several_workloads import JudgingSeveral, SearchingSeveral, SeveralWorkloads
from ..evaluators.waiting import WorkingClock
from .devices import CPU, multiprocessors

if TYPE_CHECKING:
    from ..agent.rules import Machine

Searcher = LocalEvaluator | MultiDeviceEvaluator | RemoteEvaluator
EvaluatorT = TypeVar("EvaluatorT", bound=Searcher)
SeveralT = TypeVar("SeveralT", bound=SeveralWorkloads[Any])
Pooled = SeveralWorkloads[LocalEvaluator] | SeveralWorkloads[RemoteEvaluator]


def at_workloads(make: Callable[[], EvaluatorT], stack: contextlib.ExitStack) -> SeveralWorkloads[EvaluatorT]:
    """Return an evaluator for problems at one or several workloads. It is closed with the stack."""

    def another() -> EvaluatorT:
        made = make()
        stack.enter_context(made)
        return made

    return SeveralWorkloads(another(), another)


def search_evaluator(
    devices: list[str],
    compilers: int | None,
    adaptive: bool,
    settings: Settings,
    remote: RemoteWorkers | None = None,
    sampling: Sampling | None = None,
    clock: WorkingClock | None = None,
    kept: KeptProcesses | None = None,
) -> Searcher:
    """An evaluator for many configs: `compilers` processes per device work ahead of it, by default a fair share.

    On a GPU fewer configs are in flight if the next choice depends on results. `sampling` defines when the timing of a
    trial is precise enough. `kept` lends the processes.
    """
    if remote is not None:
        return remote.search_evaluator(compilers, adaptive, settings)
    search = _search_settings(devices, compilers, adaptive)
    settings = replace(settings, search=replace(search, sampling=sampling or search.sampling))
    members = [LocalEvaluator(device, settings, memory=cache_folder(), clock=clock, kept=kept) for device in devices]
    return members[0] if len(members) == 1 else MultiDeviceEvaluator(members)


def _search_settings(devices: list[str], compilers: int | None, adaptive: bool) -> SearchSettings:
    return SearchSettings.of(compilers, cores() // len(devices), devices != [CPU], adaptive)


class Evaluators:
    """The evaluators of a run: one per usable lane, each with a quick evaluator for searches, and one for final checks.

    Lanes on a CPU share one evaluator, since other work disturbs timings. Evaluators of a lane and of its workloads
    share processes, so that nothing is imported, drawn or compiled twice.
    """

    def __init__(
        self,
        device: str,
        lanes: int,
        settings: Settings,
        remote: RemoteWorkers | None = None,
        kept: KeptProcesses | None = None,
    ) -> None:
        """Searches and turns leave out other sizes and compute-sanitizer: they are for the last check. `kept` lends the
        processes."""
        self.clock = WorkingClock()
        """Clock for time limits, which stops while the run waits for the device."""
        self._device = device
        self._remote = remote
        self._stack = contextlib.ExitStack()
        self._settings, self._sanitize = replace(settings, second_workload=False, sanitize=False), settings.sanitize
        self._searchers: dict[int, Screener] = {}
        self._judges: dict[tuple[int, tuple[str, ...]], Judge] = {}
        self.pool: list[Pooled] = []
        if remote is not None:
            there = remote.evaluator(self._settings)
            self.pool += [SeveralWorkloads(there, lambda: there)] * min(lanes, remote.lanes)
        else:
            for _ in range(1 if device == CPU else lanes):
                first = LocalEvaluator(device, self._settings, memory=cache_folder(), clock=self.clock, kept=kept)
                self._stack.enter_context(first)
                self.pool.append(self._several(SeveralWorkloads, first, self._settings))

    def start(self) -> None:
        """Start the processes of this machine's evaluators; returns before they are ready."""
        for evaluator in self.pool:
            if isinstance(evaluator.first, LocalEvaluator):
                evaluator.first.start()
                evaluator.first.processes.start_compilers()  # for the search evaluators

    @property
    def compilers(self) -> int:
        """Number of kernels that a search compiles at once."""
        if self._remote is not None:
            return max(1, self._remote.lanes)
        return _search_settings([self._device], None, True).compilers

    def searcher(self, evaluator: Evaluator) -> Screener:
        """Return the evaluator for searches in the place of one of the pool."""
        if id(evaluator) not in self._searchers:
            if self._remote is not None:
                there = self._remote.search_evaluator(None, True, self._settings)
                self._searchers[id(evaluator)] = SearchingSeveral(there, lambda: there)
            else:
                settings = self._settings.searching(_search_settings([self._device], None, True))
                self._searchers[id(evaluator)] = self._in_place_of(evaluator, SearchingSeveral, settings)
        return self._searchers[id(evaluator)]

    def judge(self, baselines: tuple[str, ...], evaluator: Evaluator) -> Judge:
        """Return the evaluator for final checks, which replaces one of the pool.

        It times these baselines anew, and checks kernels at other sizes too.
        """
        key = (id(evaluator), baselines)
        if key not in self._judges:
            known = self._settings.baselines
            settings = replace(
                self._settings,
                baselines=tuple(dict.fromkeys([*known, *baselines])),
                fresh_baselines=baselines,
                second_workload=True,
                sanitize=self._sanitize,
            )
            if self._remote is not None:
                there = self._remote.evaluator(settings)
                self._judges[key] = JudgingSeveral(there, lambda: there)
            else:
                self._judges[key] = self._in_place_of(evaluator, JudgingSeveral, settings)
        return self._judges[key]

    def _in_place_of(self, evaluator: Evaluator, kind: type[SeveralT], settings: Settings) -> SeveralT:
        """Return an evaluator of a kind with its own settings, on the processes of one of the pool."""
        assert isinstance(evaluator, SeveralWorkloads) and isinstance(evaluator.first, LocalEvaluator)
        return self._several(kind, self._stack.enter_context(evaluator.first.beside(settings)), settings)

    def _several(self, kind: type[SeveralT], first: LocalEvaluator, settings: Settings) -> SeveralT:
        another = self._another(first, settings)
        return kind(first, another, LocalEvaluator.prepare, side_by_side=self._device != CPU)

    def _another(self, first: LocalEvaluator, settings: Settings) -> Callable[[], LocalEvaluator]:
        """Return a factory of evaluators for further workloads, each with its own reference."""
        made = 1

        def another() -> LocalEvaluator:
            nonlocal made
            made += 1
            first.processes.keep(made)
            return self._stack.enter_context(first.beside(settings))

        return another

    def __enter__(self) -> Evaluators:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stack.__exit__(*raised)


def machine(device: str) -> Machine:
    """Return what the rules know about the device."""
    from ..agent.rules import Machine  # libcst takes most of a second: evaluators start before

    return Machine(cores=1 if device != CPU else cores(), multiprocessors=multiprocessors(device))


def required_sandbox(device: str) -> str:
    """Return the name of the first sandbox that works here. Raises `DeviceError` if none does."""
    used = contain(Sandbox.AUTO, device).used
    if used is Sandbox.NONE:
        raise DeviceError("no sandbox works on this machine", "install bubblewrap, or use Linux 5.13 with Landlock")
    return used.value
