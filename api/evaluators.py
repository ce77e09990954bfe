"""The evaluators of a command, for this machine and for others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from ..core.files import memory_folder
from ..evaluators.local import LocalEvaluator
from ..evaluators.multi_device import MultiDeviceEvaluator
from ..evaluators.pipeline.processes import cores
from ..evaluators.remote.evaluator import RemoteEvaluator
from ..evaluators.remote.machines import Remote
from ..evaluators.settings import Limits, Sampling, SearchSettings, Settings
from ..evaluators.several_workloads import SeveralWorkloads
from .devices import CPU
from .options.groups import MachineOptions, TimingOptions, TrustOptions, settings_of

if TYPE_CHECKING:
    from ..agent.rules import Machine

Searcher = LocalEvaluator | MultiDeviceEvaluator | RemoteEvaluator
EvaluatorT = TypeVar("EvaluatorT", bound=Searcher)
STRICT = TimingOptions()
"""The default strictness."""


@contextlib.contextmanager
def joined(options: MachineOptions) -> Iterator[Remote | None]:
    """The machines, until the command ends; None for this one. Raises `DeviceError` when they cannot be used."""
    wanted = options.remote
    if wanted is None:
        yield None
        return
    with Remote(wanted) as remote:
        remote.check()
        yield remote


def at_workloads(make: Callable[[], EvaluatorT], stack: contextlib.ExitStack) -> SeveralWorkloads[EvaluatorT]:
    """An evaluator for problems at one workload or at several; what it makes is closed with the stack."""

    def another() -> EvaluatorT:
        made = make()
        stack.enter_context(made)
        return made

    return SeveralWorkloads(another(), another)


def local_evaluator(device: str, trust: TrustOptions = STRICT, settings: Settings | None = None) -> LocalEvaluator:
    """The evaluator of this machine."""
    return LocalEvaluator(device, settings_of(trust, settings or Settings()), memory=memory_folder())


def remote_evaluator(remote: Remote, trust: TrustOptions = STRICT, settings: Settings | None = None) -> RemoteEvaluator:
    """The evaluator of other machines, for any number of lanes at once."""
    return remote.evaluator(settings_of(trust, settings or Settings()))


def search_evaluator(
    devices: list[str],
    compilers: int | None,
    adaptive: bool,
    compile_s: float,
    trust: TrustOptions = STRICT,
    remote: Remote | None = None,
    sampling: Sampling | None = None,
) -> Searcher:
    """An evaluator for many configs: `compilers` processes per device work ahead of it, by default a fair share.

    On a GPU, where the next choice depends on what is known, fewer configs are under way at once. `sampling` says when
    the timing of a trial is precise enough.
    """
    limits = Limits(compile_s=compile_s)
    if remote is not None:
        return remote.search_evaluator(compilers, adaptive, settings_of(trust, Settings(limits=limits)))
    ahead = devices != [CPU]
    if compilers is None:
        share = cores() // len(devices)
        compilers = max(1, share // 2 if ahead and adaptive else share)
    window = 4 * compilers if ahead and not adaptive else compilers
    search = SearchSettings(compilers, window)
    settings = Settings(limits=limits, search=replace(search, sampling=sampling or search.sampling))
    members = [local_evaluator(device, trust, settings) for device in devices]
    return members[0] if len(members) == 1 else MultiDeviceEvaluator(members)


class Evaluators:
    """The evaluators of a run: as many as its lanes can use, and one that evaluates many configs quickly.

    Lanes on a CPU share one, since other work disturbs a timing.
    """

    def __init__(self, device: str, lanes: int, trust: TrustOptions = STRICT, remote: Remote | None = None) -> None:
        self._device = device
        self._remote = remote
        self._trust = trust
        self._stack = contextlib.ExitStack()
        self._searcher: SeveralWorkloads[Searcher] | None = None
        settings = Settings(compile_ahead=lanes > 1)
        self.pool: list[SeveralWorkloads[LocalEvaluator] | SeveralWorkloads[RemoteEvaluator]] = []
        if remote is not None:
            there = remote_evaluator(remote, trust, settings)
            self.pool += [SeveralWorkloads(there, lambda: there)] * min(lanes, remote.lanes)
        else:
            for _ in range(1 if device == CPU else lanes):
                self.pool.append(at_workloads(lambda: local_evaluator(device, trust, settings), self._stack))

    def start(self) -> None:
        """Start the processes of this machine's evaluators; returns before they are ready."""
        for evaluator in self.pool:
            if isinstance(evaluator.first, LocalEvaluator):
                evaluator.first.start()

    def searcher(self) -> SeveralWorkloads[Searcher]:
        """Return the evaluator for searches, created at the first call."""
        if self._searcher is None:
            self._searcher = at_workloads(self._new_searcher, self._stack)
        return self._searcher

    def _new_searcher(self) -> Searcher:
        return search_evaluator([self._device], None, True, Limits().compile_s, self._trust, self._remote)

    def __enter__(self) -> Evaluators:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def machine(device: str) -> Machine:
    """Return what the rules know about the device."""
    from ..agent.rules import Machine  # libcst takes most of a second: evaluators start before

    return Machine(cores=1 if device != CPU else cores())
