"""How tests measure beside each other: none waits for the device, or until the others leave the processor alone."""

from __future__ import annotations

import inspect
import sys


def measure_beside_others() -> None:
    """Let this process take no notice of what else measures here: its figures are worth as much."""
    import os

    from kernelwright.evaluators import device_lock, profiling, timekeeping

    timekeeping.tolerated_cores = profiling.tolerated_cores = lambda: float("inf")
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    device_lock.FOLDER = device_lock.FOLDER.with_name(f"kernelwright-locks-{worker}")


KERNELWRIGHT = (
    sys.executable,
    "-c",
    f"{inspect.getsource(measure_beside_others)}\n"
    "measure_beside_others()\nfrom kernelwright.cli.main import main\nmain()\n",
)
"""`python -m kernelwright`, so hurried."""
