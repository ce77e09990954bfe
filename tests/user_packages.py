"""The packages under tests/packages, written as users write theirs: copies of them, and their own tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from kernelwright.corpus.functions.translation import UserFunction, translate

PACKAGES = Path(__file__).parent / "packages"


@dataclass(frozen=True)
class UserPackage:
    """A function, its reference and its inputs, by their places in the package's folder."""

    name: str
    function: str
    reference: str
    inputs: str
    gpu_inputs: str = ""
    """At sizes that are worth a GPU."""

    def copied(self, to: Path) -> Path:
        return Path(shutil.copytree(PACKAGES / self.name, to / self.name, ignore=shutil.ignore_patterns("__pycache__")))

    def at(self, folder: Path) -> tuple[str, str, str]:
        return f"{folder / self.function}", f"{folder / self.reference}", f"{folder / self.inputs}"

    def translated(self, folder: Path | None = None) -> UserFunction:
        return translate(*self.at(folder or PACKAGES / self.name))


RMS_NORM = UserPackage(
    "rownorm",
    "rownorm/ops/rms_norm.py::rms_norm",
    "rownorm/ops/reference.py::rms_norm_torch",
    "bench.yaml",
    "bench_gpu.yaml",
)
SWIGLU = UserPackage(
    "gatedmlp", "gatedmlp/ops.py::swiglu", "gatedmlp/ops.py::swiglu_torch", "bench.py::inputs", "bench_gpu.py::inputs"
)
SCALED_MM = UserPackage(
    "scaledmm",
    "scaledmm/api.py::scaled_mm",
    "scaledmm/api.py::scaled_mm_torch",
    "bench.py::inputs",
    "bench_gpu.py::inputs",
)
LINEAR = UserPackage("cpulinear", "linear.py::linear_relu", "linear.py::linear_relu_torch", "linear.py::inputs")
TRITON = (RMS_NORM, SWIGLU, SCALED_MM)


def run_tests(*folders: Path, interpreted: bool = True) -> subprocess.CompletedProcess[str]:
    """The packages' own tests, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    environment |= {"TRITON_INTERPRET": "1"} if interpreted else {}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *(str(path / "tests") for path in folders),
    ]
    return subprocess.run(command, cwd=folders[0], env=environment, capture_output=True, text=True, timeout=280)


def apply(patch: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """`git apply`, as its user runs it."""
    return subprocess.run(["git", "apply", str(patch)], cwd=folder, capture_output=True, text=True)
