"""The remote machines that a command evaluates on."""

from __future__ import annotations

from typing import Self

from ..settings import Limits, SearchSettings, Settings
from .evaluator import RemoteEvaluator, Workers
from .options import AUTO, CPU, CUDA, RemoteOptions, Where


class Remote:
    """The workers of one command, shared by its evaluators; `close` ends them.

    Modal starts nothing before the first payload; a Ray cluster is joined at once. Raises `DeviceError`.
    """

    def __init__(self, options: RemoteOptions, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        self.device = CUDA
        """'cuda' or 'cpu', as for kernels and backends."""
        self._workers: Workers
        if options.where is Where.MODAL:
            from .modal_app import Resources
            from .modal_evaluator import ModalContainers

            resources = Resources(gpu=options.gpu)
            self.label = f"Modal {resources.gpu}"
            """The device's name in journals and folder names."""
            self._cpus = resources.cpus
            self._workers = ModalContainers(resources, Settings(limits=limits, search=self._search(None, False)))
        else:
            from .ray_cluster import RayCluster

            device = None if options.device == AUTO else options.device
            cluster = RayCluster(options.ray_address, device, Settings(limits=limits))
            self.device = cluster.device
            self.label = f"Ray {'GPUs' if self.device == CUDA else 'CPUs'}"
            self._cpus = cluster.cpus
            self._workers = cluster

    def check(self) -> None:
        """Raise `DeviceError` now for a problem that would else show with the first payload, after files were moved."""
        if self.label.startswith("Modal"):
            from .modal_evaluator import check_login

            check_login()

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
