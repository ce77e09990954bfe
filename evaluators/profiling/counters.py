"""A vendor's counters for one call of a kernel, in a separate process, where its profiler is installed and allowed.

Profilers replay each launch, or run it alone, so this takes seconds and is never part of an evaluation.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

from ...core import Kernel, TorchProblem
from ...core.environment import allowed_environment
from ...core.file_locks import temporary_folder
from ...core.language import cache_environment
from ..devices import CUDA, present
from ..sandbox.containment import contain, home_in
from ..settings import Sandbox
from ..workers.problem_file import problem_options
from ..workers.server_client import import_path

TIMEOUT_S = 300.0


class CounterTool(Protocol):
    """A vendor's profiler that counts what a kernel does, run on a program: a module such as `profiling.ncu`."""

    PROGRAM: str
    """Its name on the PATH."""
    NAME: str
    """As messages say it."""
    INSTALLED: list[Path]
    """Where its parts are."""

    def tool_command(self, tool: str, folder: Path) -> list[str]:
        """Return the tool and its options, to write to a folder; the program to run follows."""

    def read_folder(self, folder: Path, own: Collection[str]) -> dict[str, float]:
        """Return the counters of the candidate's `own` kernels; of all where none are named. Empty where none are."""

    def reason(self, folder: Path, printed: str) -> str:
        """Return why there are no counters, from what it wrote and printed."""


@dataclass(frozen=True)
class Counted:
    """The counters, or the reason why there are none."""

    counters: dict[str, float] = field(default_factory=dict)
    """For `core.KernelProfile.counters`: of NVIDIA's GPUs `ncu.METRICS`, 'dram_mb', and the three largest
    'stall_<reason>_pct', each as a share of all stalls; of AMD's `rocprof.METRICS` and 'dram_mb'."""
    remark: str = ""
    """One line when there are no counters."""


def count(
    problem: TorchProblem,
    kernel: Kernel,
    device: str,
    own: Collection[str] = (),
    sandbox: Sandbox = Sandbox.AUTO,
    timeout_s: float = TIMEOUT_S,
) -> Counted:
    """Run the kernel's source under the profiler of the device's vendor, in bubblewrap.

    It never raises for a failure of the profiler or of the kernel.

    `own` are the candidate's kernels by the profiler's names; by default all launched kernels are counted.
    """
    support = present() or CUDA
    if not support.counters:
        return Counted(remark="no counters: of this kind of device no profiler is known")
    counts: CounterTool = cast("CounterTool", importlib.import_module(support.counters))
    tool = shutil.which(counts.PROGRAM)
    if tool is None:
        return Counted(remark=f"no counters: {counts.NAME} is not on the PATH")
    containment = contain(sandbox, device)
    if containment.used is Sandbox.LANDLOCK:
        return Counted(remark=f"no counters: {counts.PROGRAM} needs bubblewrap, or `sandbox` none")
    with temporary_folder("kernelwright-counters-") as name:
        folder = Path(name).resolve()
        source, request = folder / "kernel.py", folder / "request.json"
        source.write_text(kernel.source)
        options = problem_options(problem, folder)
        shown = problem.package.shown if problem.package is not None else ()
        request.write_text(json.dumps({**options, "kernel": str(source), "device": device, "seed": 0}))
        inside = containment.command([Path(tool).parent, *counts.INSTALLED, *shown], [folder])
        command = [
            *inside,
            *counts.tool_command(tool, folder),
            sys.executable,
            "-P",
            "-m",
            f"{__package__}.counter_target",
            str(request),
        ]
        environment = {
            **allowed_environment(os.environ),
            **import_path(),
            **cache_environment(folder),
            "TMPDIR": str(folder),
        }
        environment |= home_in(folder) if inside else {}
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                timeout=timeout_s, env=environment,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Counted(remark=f"no counters: {counts.PROGRAM} did not finish within {timeout_s:g} s")
        except OSError as error:
            return Counted(remark=f"no counters: {counts.PROGRAM} cannot be started: {error}")
        if counters := counts.read_folder(folder, own):
            return Counted(counters)
        return Counted(remark=f"no counters: {counts.reason(folder, done.stdout + done.stderr)}")
