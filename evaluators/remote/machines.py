"""The remote machines that a command evaluates on."""

from __future__ import annotations

from typing import Self

from ...entry_points import EntryGroup
from ..settings import Limits, SearchSettings, Settings
from .evaluator import RemoteEvaluator
from .options import CPU, GROUP, MODAL, RAY, RemoteOptions
from .workers import EvaluatorEntry, Workers


def _on_modal(options: RemoteOptions, settings: Settings) -> Workers:
    from .modal_evaluator import start

    return start(options, settings)


def _on_ray(options: RemoteOptions, settings: Settings) -> Workers:
    from .ray_cluster import start

    return start(options, settings)


ENTRIES = EntryGroup(GROUP, "evaluator", EvaluatorEntry, "kernelwright.remote.EvaluatorEntry")
BUILT_IN = {MODAL: EvaluatorEntry(_on_modal), RAY: EvaluatorEntry(_on_ray)}


class RemoteWorkers:
    """The workers of one command, shared by its evaluators; `close` ends them.

    Modal starts nothing before the first payload; a Ray cluster is joined at once. Raises `DeviceError`.
    """

    def __init__(self, options: RemoteOptions, limits: Limits | None = None) -> None:
        self._workers = ENTRIES.find(options.where, BUILT_IN).start(options, Settings(limits=limits or Limits()))
        self.device = self._workers.device
        """'cuda' or 'cpu', as for kernels and backends."""
        self.label = self._workers.label
        """The device's name in journals and folder names."""
        self._cpus = self._workers.cpus

    def check(self) -> None:
        """Raise `DeviceError` now for a problem that would else show with the first payload, after files were moved."""
        self._workers.check()

    @property
    def lanes(self) -> int:
        """The number of evaluations that can run at once."""
        return self._workers.count()

    def evaluator(self, settings: Settings | None = None) -> RemoteEvaluator:
        """Return an evaluator with these settings; any number may be used at once."""
        return RemoteEvaluator(self._workers, settings or Settings())

    def search_evaluator(
        self, compilers: int | None, adaptive: bool, settings: Settings | None = None
    ) -> RemoteEvaluator:
        """Return an evaluator for many configs, with all `settings` except those of the search.

        A worker gets as many configs at a time as it has compilers: half as many where each choice depends on earlier
        results, and four times as many where it does not.
        """
        return self.evaluator((settings or Settings()).searching(self._search(compilers, adaptive)))

    def _search(self, compilers: int | None, adaptive: bool) -> SearchSettings:
        return SearchSettings.of(compilers, self._cpus, self.device != CPU, adaptive)

    def close(self) -> None:
        """End all workers."""
        self._workers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
