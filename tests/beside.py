"""How tests measure beside each other: none waits for the device, or until the others leave the processor alone."""

from __future__ import annotations

import inspect
import sys


def measure_beside_others() -> None:
    """Let this process take no notice of what else measures here: its figures are worth as much."""
    import os

    from kernelwright.evaluators.pipeline import interleaved_timer
    from kernelwright.evaluators.reference import roofline
    from kernelwright.evaluators.workers import device_lock

    interleaved_timer.tolerated_cores = roofline.tolerated_cores = lambda: float("inf")
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    device_lock.FOLDER = device_lock.FOLDER.with_name(f"kernelwright-locks-{worker}")


KERNELWRIGHT = (
    sys.executable,
    "-c",
    f"{inspect.getsource(measure_beside_others)}\n"
    "measure_beside_others()\nfrom kernelwright.cli.main import main\nmain()\n",
)
"""`python -m kernelwright`, so hurried."""
