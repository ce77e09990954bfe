"""Joins a Ray cluster, and lists its nodes."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from ...core import DeviceError
from ...core.text import first_line
from .reach import unreachable

_log = logging.getLogger(__name__)


def connect(address: str | None) -> Any:
    """Join a cluster and return an object whose call leaves it. Raises a one-line `DeviceError` on failure."""
    try:
        import ray
    except ImportError:
        raise DeviceError("`evaluator` ray needs Ray: pip install 'kernelwright[ray]'") from None
    if ray.is_initialized():
        return lambda: None
    wanted = address or os.environ.get("RAY_ADDRESS") or "auto"
    host, _, port = wanted.removeprefix("ray://").rpartition(":")
    if host and port.isdigit() and (why := unreachable(host, int(port))):
        raise DeviceError(f"cannot reach the Ray cluster: {why}; 'ray start --head' prints its address")
    before = signal.getsignal(signal.SIGTERM)
    logging.getLogger("ray._private.worker").setLevel(logging.ERROR)  # logging_level alone does not silence it
    try:
        ray.init(address=wanted, namespace="kernelwright", log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ImportError, RuntimeError, ValueError) as error:
        if wanted == "auto":
            raise DeviceError(
                "no Ray cluster runs on this machine; start one with 'ray start --head', or name one with `ray_address`"
            ) from None
        raise DeviceError(
            f"cannot join the Ray cluster at {wanted}: {first_line(error)}; 'ray start --head' prints its address, "
            "which `ray_address` takes"
        ) from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # Ray's own would end the command without closing anything
    _silence()
    return ray.shutdown


def _silence() -> None:
    """Stop Ray from printing raylet messages to standard output, where a command's JSON goes."""
    from ray._private import worker

    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda data, *_, **__: _log.debug("%s", data)


def living_nodes() -> list[dict[str, Any]]:
    """Return Ray's description of every living node: NodeID, Resources and more."""
    import ray

    listed: Callable[[], list[dict[str, Any]]] = ray.nodes
    return [node for node in listed() if node["Alive"]]


def gpus_of(node: dict[str, Any]) -> int:
    """Return the number of GPUs that a node offers."""
    return int(node["Resources"].get("GPU", 0))
