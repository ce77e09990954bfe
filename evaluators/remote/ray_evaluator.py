"""`evaluator` ray: evaluations spread over the GPUs or the CPUs of a Ray cluster."""

from __future__ import annotations

from ..settings import Settings
from .evaluator import ATTEMPTS, RemoteEvaluator
from .ray_cluster import RayCluster


class RayEvaluator(RemoteEvaluator):
    """A `core.Evaluator` on a Ray cluster, by default with a worker for every GPU or for every node's CPU."""

    def __init__(self, cluster: RayCluster, settings: Settings | None = None, attempts: int = ATTEMPTS) -> None:
        super().__init__(cluster, settings or Settings(), attempts)
        self.cluster = cluster
