"""What an evaluator on other machines is made of, for packages that add one (docs/testing.md has an example).

An `EvaluatorEntry`, which an entry point of the group `kernelwright.evaluators` names, starts `Workers`. They carry a
`Payload` to another machine, where a `WorkerHost` runs it, and bring its responses back.
"""

from .evaluators.remote.options import RemoteOptions
from .evaluators.remote.payload import Payload, Response, What, read_evaluations
from .evaluators.remote.worker_host import WorkerHost, versions
from .evaluators.remote.workers import (
    EvaluatorEntry,
    PayloadCancelledError,
    PayloadTimeoutError,
    WorkerLostError,
    Workers,
)
from .evaluators.settings import Settings

__all__ = [
    "EvaluatorEntry",
    "Payload",
    "PayloadCancelledError",
    "PayloadTimeoutError",
    "RemoteOptions",
    "Response",
    "Settings",
    "What",
    "WorkerHost",
    "WorkerLostError",
    "Workers",
    "read_evaluations",
    "versions",
]
