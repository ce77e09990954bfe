"""The keys by which Triton's autotuners distinguish workloads, and measured times as entries of their disk cache.

With an entry an autotuner chooses without benchmarks of its own.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...core import Evaluation, JointProblem, KernelError, TorchProblem
from ...core.environment import allowed_environment
from ...core.file_locks import temporary_folder
from ..problems import find_problem
from .program import answer_of

if TYPE_CHECKING:
    from .translation import UserFunction

CACHE_PROGRAM = Path(__file__).with_name("triton_cache_program.py")
TIMEOUT_S = 300.0
"""Seconds for one program, which runs the user's launcher: it compiles and launches nothing."""
_KEYS_PROGRAM = """
import importlib, json, sys
task = json.load(sys.stdin)
sys.path[:0] = [task["folder"], *task["paths"]]
from triton.runtime import autotuner, jit
seen = []
def run(self, *args, **options):
    given = {**dict(zip(self.arg_names, args)), **options}
    dtypes = [str(value.dtype) for value in given.values() if hasattr(value, "dtype")]
    seen.append([self.base_fn.__name__, *(repr(given.get(name)) for name in self.keys), *dtypes])
autotuner.Autotuner.run = run
jit.JITFunction.run = lambda self, *args, **options: None
import problem_of_keys as problem
module = importlib.import_module(task["module"])
function, owner = module, None
for part in task["function"].split("."):
    owner, function = function, getattr(function, part)
keys = {}
for name, sizes in task["workloads"].items():
    for size, value in sizes.items():
        setattr(problem, size, value)
    seen.clear()
    problem.called(function, problem.get_inputs(), owner=owner)
    keys[name] = json.dumps(seen)
print("\\n" + json.dumps(keys))
"""


def enter_timings(
    function: UserFunction,
    problem: TorchProblem,
    evaluations: Sequence[Evaluation],
    files: Mapping[Path, str],
    target: Sequence[str | int] = (),
) -> list[Path]:
    """Write an entry for each workload and kernel; return the files.

    The entry is for the package as it is, or as `files`, new texts by path, make it: Triton finds it by the kernel's
    source, the configs in its decorator and the arguments of its key. `target` names a GPU for Triton, such as
    ('cuda', 90, 32), where there is none. Raises `KernelError` if no entry can be made.
    """
    if not function.kernels:
        raise KernelError(
            f"{function.target} has no kernel under @triton.autotune, so Triton caches nothing; use `patch`"
        )
    members = problem.members if isinstance(problem, JointProblem) and problem.members else {"": problem}
    workloads = [
        {"sizes": dict(member.sizes), "timings": _timings(function, evaluations, name)}
        for name, member in members.items()
    ]
    with temporary_folder("kernelwright-cache-") as folder:
        root = _copy(function, Path(folder), files)
        Path(folder, "problem_of_cache.py").write_text(problem.source)
        paths = [str(root), str(folder), *function.package.paths]
        entered = enter(
            paths, function.target.place.module, function.target.name, workloads, target, function.package.environment
        )
    if not entered:
        raise KernelError(
            "no entry for Triton's cache: an autotuner with one config chooses nothing; the patch is enough"
        )
    return entered


def enter_products(
    module: Path, function: str, workloads: Sequence[Mapping[str, Any]], target: Sequence[str | int] = ()
) -> list[Path]:
    """Write the entries of a module from `tune gemm`, for each shape; none if it has a single config."""
    with temporary_folder("kernelwright-cache-") as folder:
        Path(folder, "problem_of_cache.py").write_text(find_problem("gemm/gemm").read().source)
        return enter([str(module.parent), str(folder)], module.stem, function, workloads, target)


def enter(
    paths: Sequence[str],
    module: str,
    function: str,
    workloads: Sequence[Mapping[str, Any]],
    target: Sequence[str | int],
    variables: Mapping[str, str] = MappingProxyType({}),
) -> list[Path]:
    """Call a function at each workload with its times in place of benchmarks; return the files of the entries."""
    task = {
        **{"paths": list(paths), "module": module, "function": function},
        **{"workloads": list(workloads), "target": list(target)},
    }
    allowed = allowed_environment(os.environ, asked_by=_source(Path(paths[0], module.partition(".")[0])))
    environment = {**allowed, **variables, "TRITON_CACHE_AUTOTUNING": "1"}
    environment.pop("TRITON_INTERPRET", None)
    failure = "no entry for Triton's cache"
    entered: list[str] = answer_of([str(CACHE_PROGRAM)], json.dumps(task), TIMEOUT_S, failure, environment=environment)
    return [Path(item) for item in entered]


def _source(package: Path) -> str:
    """Return the text of a package, or of a module without one: it may ask for variables by name."""
    files = package.rglob("*.py") if package.is_dir() else [package.with_suffix(".py")]
    return "\n".join(file.read_text(errors="replace") for file in files)


def _timings(function: UserFunction, evaluations: Sequence[Evaluation], workload: str) -> list[dict[str, Any]]:
    """Return the measured times of a workload, in milliseconds, the least of each config of each kernel."""
    found: dict[str, dict[str, Any]] = {}
    for evaluation in evaluations:
        latency = (
            evaluation.workloads[workload].latency_ms if workload in evaluation.workloads else evaluation.latency_ms
        )
        if not evaluation.ok or latency is None:
            continue
        config = {**function.kernel.config, **evaluation.config}
        for item in function.kernels:
            row = {"kernel": item.kernel, "config": item.measured(config)}
            key = json.dumps(row, sort_keys=True)
            if key not in found or latency < found[key]["ms"]:
                found[key] = {**row, "ms": latency}
    return list(found.values())


def _copy(function: UserFunction, folder: Path, files: Mapping[Path, str]) -> Path:
    """Return the folder from which the user's module is imported, a copy where files change."""
    place = function.target.place
    root = place.folder
    if not files:
        return root
    package = root / place.top
    if package.is_dir():
        shutil.copytree(package, folder / place.top, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        for item in root.glob("*.py"):
            shutil.copyfile(item, folder / item.name)
    for item, text in files.items():
        if item.is_relative_to(root):
            Path(folder, item.relative_to(root)).write_text(text)
    return folder


def workload_keys(function: UserFunction, problem: TorchProblem) -> dict[str, str]:
    """Return a key for each workload, equal if the autotuners of all kernels have equal keys.

    The user's own function runs for this, on the CPU and without its autotuned launches. If that fails, for example
    because a launcher needs a GPU, each workload has a text of its own.
    """
    members = problem.members if isinstance(problem, JointProblem) else {}
    apart = {name: name for name in members}
    if len(members) < 2 or not function.kernels:
        return apart
    with temporary_folder("kernelwright-keys-") as folder:
        Path(folder, "problem_of_keys.py").write_text(problem.source)
        task = {
            "folder": str(folder),
            "paths": function.package.paths,
            "module": function.target.place.module,
            "function": function.target.name,
            "workloads": {name: dict(member.sizes) for name, member in members.items()},
        }
        known = allowed_environment(os.environ, asked_by=function.kernel.source + problem.source)
        known |= function.package.environment
        try:
            found: dict[str, str] = answer_of(
                ["-c", _KEYS_PROGRAM], json.dumps(task), TIMEOUT_S, "no keys", environment=known
            )
        except KernelError:
            return apart
    return found
