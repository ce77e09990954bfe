"""A program in the place of compute-sanitizer, which makes the call and writes a recorded report."""

from __future__ import annotations

import json
import stat
import sys
from dataclasses import replace
from pathlib import Path

from kernelwright.core import Config, Evaluation, Kernel, TorchProblem
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.pipeline.sanitizer import MOST_S, Sanitizer

from ...conftest import PROVING

TOOL = """#!{python} -S
import json, os, pathlib, subprocess, sys
if "--version" in sys.argv:
    sys.exit(print("Version {version} (build 39022338) (public-release)"))
at = sys.argv.index({python!r})
options = sys.argv[1:at]
tool, log = (options[options.index(name) + 1] for name in ("--tool", "--log-file"))
with open({noted!r} if os.path.isdir(os.path.dirname({noted!r})) else "/dev/null", "a") as notes:
    notes.write(json.dumps([tool, options, sys.argv[at:], json.load(open(sys.argv[-1]))]) + "\\n")
report = {reports!r}.get(tool, {clean!r})
if {calls!r}:
    subprocess.run(sys.argv[at:])
else:
    reason = "RuntimeError: no device" if report == "refused" else None
    pathlib.Path(json.load(open(sys.argv[-1]))["ended"]).write_text(json.dumps(dict(reason=reason)))
text = "========= Error: Device not supported. Please refer to the documentation." if report == "refused" else report
if report == "hangs":
    subprocess.run(["sh", "-c", "echo $$ > " + {noted!r} + ".pid; sleep 60; true"])
pathlib.Path(log).write_text("========= COMPUTE-SANITIZER\\n" + text)
"""
CLEAN = "========= ERROR SUMMARY: 0 errors\n"
BEHIND = """========= Invalid __global__ write of size 4 bytes
=========     at KERNEL+0x90 in kernel.py:12
=========     by thread (0,0,0) in block (3,0,0)
=========     Address 0x710fdc800400 is out of bounds
=========
========= ERROR SUMMARY: 1 error
"""
NOTHING = dict.fromkeys(("memcheck", "initcheck", "racecheck"), "clean")


class OnCpu(Sanitizer):
    """Runs the tools on kernels for a CPU, too."""

    def watches(self, device: str) -> bool:
        return True


class Bench:
    """An evaluator of which final checks use the tool in the folder, if there is one."""

    def __init__(self, folder: Path, evaluator: LocalEvaluator, most_s: float = MOST_S) -> None:
        self.noted = folder / "noted.jsonl"
        self._tool = folder / "compute-sanitizer"
        self.evaluator = evaluator
        self._most_s = most_s
        self.forget()

    def forget(self) -> None:
        """Forget what the tools said."""
        processes = self.evaluator.processes
        processes.sanitizer = OnCpu(processes.apart, PROVING.limits, self._most_s)

    def tool(self, calls: bool = False, version: str = "2026.4.0.0", **reports: str) -> None:
        """Put a program in the place of compute-sanitizer that reports so, and makes the call, or says that it did."""
        made = {"python": sys.executable, "calls": calls, "version": version, "noted": str(self.noted), "clean": CLEAN}
        text = TOOL.format(**made, reports=reports)
        self._tool.write_text(text)
        self._tool.chmod(self._tool.stat().st_mode | stat.S_IXUSR)

    def runs(self) -> list[list]:
        """What the program was asked: tool, options, the command of the call, and its request."""
        return [json.loads(line) for line in self.noted.read_text().splitlines()] if self.noted.exists() else []

    def found(self, problem: TorchProblem, kernel: Kernel) -> Evaluation:
        (found,) = self.evaluator.evaluate(problem, kernel, [Config()])
        return found


WATCHING = replace(PROVING, sanitize=True)
