"""What the tests of a run share, set as a user could set it: by variables that the documentation names."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

KERNELWRIGHT = (sys.executable, "-P", "-m", "kernelwright")
"""The command, in a process of its own."""
WARM_SERVER = "KERNELWRIGHT_WARM_SERVER"
QUICK = "KERNELWRIGHT_QUICK"
_FOLDER = "TESTS_OF_KERNELWRIGHT"
"""The variable with the folder that all workers of a run share."""


def enter() -> Path | None:
    """Set the variables of a run; returns its folder to the process that made it, which removes it."""
    own = None
    if _FOLDER not in os.environ:
        own = Path(tempfile.mkdtemp(prefix="kernelwright-tests-"))
        os.environ[_FOLDER] = str(own)
        # Threads that wait for work must not spin: another worker measures on the same cores.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        # For each new folder of its cache Inductor compiles and imports a file per kind of vector instructions, to see
        # whether the compiler has them: half of what a compilation takes, and the tests have many such folders.
        os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")
        # Neither the configuration of the person who runs them nor that person's key for journals is in a test.
        os.environ |= {"XDG_CONFIG_HOME": str(own / "config"), "XDG_STATE_HOME": str(own / "state")}
        os.environ |= {WARM_SERVER: str(own / "warm"), QUICK: "true"}
    gpus = len(list(Path("/dev").glob("nvidia[0-9]*")))
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if gpus == 0:
        # The tests of each worker take turns on the processor, and take no notice of other workers.
        os.environ["KERNELWRIGHT_LOCKS"] = str(Path(os.environ[_FOLDER], f"locks-{worker}"))
    elif worker and gpus > 1:  # before anything has looked which GPUs there are
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", str(int(worker.removeprefix("gw")) % gpus))
    return own


def example_vectors() -> Path:
    """The folder for the vectors of examples that all workers of a run share."""
    folder = Path(os.environ[_FOLDER], "examples")
    folder.mkdir(exist_ok=True)
    return folder
