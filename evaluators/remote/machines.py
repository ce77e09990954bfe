"""The machines that a command evaluates on, where these are others than this one."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from ..settings import Limits, SearchSettings, Settings
from .evaluator import RemoteEvaluator, Workers
from .options import AUTO, CPU, CUDA, RemoteOptions, Where


class Remote:
    """The workers of one command, which all its evaluators share; `close` ends them.

    For Modal nothing is started before the first question; a Ray cluster is joined at once. Raises `DeviceError`.
    """

    def __init__(self, options: RemoteOptions, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        self.device = CUDA
        """'cuda' or 'cpu', as kernels and backends mean it."""
        self._workers: Workers
        if options.where is Where.MODAL:
            from .modal_app import Resources
            from .modal_evaluator import ModalContainers

            resources = Resources(gpu=options.gpu)
            self.label = f"Modal {resources.gpu}"
            """What journals and folders call the device."""
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
        """Raise `DeviceError` at once for what would else show with the first question, after files were moved."""
        if self.label.startswith("Modal"):
            from .modal_evaluator import check_login

            check_login()

    @property
    def lanes(self) -> int:
        """How many evaluations can be under way at once."""
        return self._workers.count()

    def evaluator(self, settings: Settings | None = None) -> RemoteEvaluator:
        """One with these settings; any number may be used at once."""
        return RemoteEvaluator(self._workers, settings or Settings())

    def search_evaluator(
        self, compilers: int | None, adaptive: bool, settings: Settings | None = None
    ) -> RemoteEvaluator:
        """One for many configs; `settings` says all but how it searches.

        A worker is given as many configs at a time as it has compilers: where the next choice depends on what is known
        half as many, and four times as many where it does not.
        """
        return self.evaluator(replace(settings or Settings(), search=self._search(compilers, adaptive)))

    def _search(self, compilers: int | None, adaptive: bool) -> SearchSettings:
        ahead = self.device != CPU
        if compilers is None:
            compilers = max(1, self._cpus // 2 if ahead and adaptive else self._cpus)
        return SearchSettings(compilers, 4 * compilers if ahead and not adaptive else compilers)

    def close(self) -> None:
        """End all workers."""
        self._workers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
