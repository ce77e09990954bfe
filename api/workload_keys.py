"""Which workloads an autotuner can tell apart: those whose launches differ in the arguments of its key."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from ..core import JointProblem, KernelError, TorchProblem
from ..core.environment import allowed_environment
from ..corpus.functions.program import answer_of
from ..corpus.functions.translation import UserFunction

TIMEOUT_S = 300.0
"""Seconds. The user's launcher runs once per workload; nothing is compiled or launched."""
_PROGRAM = """
import json, sys
task = json.load(sys.stdin)
sys.path[:0] = [task["folder"]]
from triton.runtime import autotuner
seen = []
def run(self, *args, **options):
    given = {**dict(zip(self.arg_names, args)), **options}
    dtypes = [str(one.dtype) for one in given.values() if hasattr(one, "dtype")]
    seen.append([self.base_fn.__name__, *(repr(given.get(name)) for name in self.keys), *dtypes])
autotuner.Autotuner.run = run
import problem_of_keys as problem
from kernel_of_keys import ModelNew
keys = {}
for name, sizes in task["workloads"].items():
    for size, value in sizes.items():
        setattr(problem, size, value)
    seen.clear()
    ModelNew()(*problem.get_inputs())
    keys[name] = json.dumps(seen)
print("\\n" + json.dumps(keys))
"""


def workload_keys(function: UserFunction, problem: TorchProblem) -> dict[str, str]:
    """Return a text for each workload, equal where the autotuners of all kernels have the same key.

    The user's own start kernel runs for it, on the CPU and without its launches. Where that fails, such as for a
    launcher that insists on a GPU, each workload has a text of its own.
    """
    members = problem.members if isinstance(problem, JointProblem) else {}
    apart = {name: name for name in members}
    if len(members) < 2 or not function.kernels:
        return apart
    with tempfile.TemporaryDirectory(prefix="kernelwright-keys-") as folder:
        Path(folder, "kernel_of_keys.py").write_text(function.kernel.source)
        Path(folder, "problem_of_keys.py").write_text(problem.source)
        task = {"folder": folder, "workloads": {name: dict(member.sizes) for name, member in members.items()}}
        known = allowed_environment(os.environ, asked_by=function.kernel.source + problem.source)
        try:
            found: dict[str, str] = answer_of(
                ["-c", _PROGRAM], json.dumps(task), TIMEOUT_S, "no keys", environment=known
            )
        except KernelError:
            return apart
    return found
