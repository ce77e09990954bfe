"""Measured times as entries of Triton's cache of autotuners, which then choose without benchmarks of their own."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core import Evaluation, JointProblem, KernelError, TorchProblem
from ..core.environment import allowed_environment
from ..corpus import find_problem
from ..corpus.functions.program import answer_of
from ..corpus.functions.translation import UserFunction
from ..tuners.gemm.stores.triton_cache import FUNCTION

PROGRAM = Path(__file__).with_name("triton_cache_program.py")
TIMEOUT_S = 300.0
"""Seconds for one program: it compiles and launches nothing."""


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
    ('cuda', 90, 32), where there is none. Raises `KernelError` where no entry can be made.
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
    with tempfile.TemporaryDirectory(prefix="kernelwright-cache-") as folder:
        root, module = _copy(function, Path(folder), files)
        Path(folder, "problem_of_cache.py").write_text(problem.source)
        entered = enter([str(root), folder], module, function.target.name, workloads, target)
    if not entered:
        raise KernelError(
            "no entry for Triton's cache: an autotuner with one config chooses nothing; the patch is enough"
        )
    return entered


def enter_products(
    module: Path, workloads: Sequence[Mapping[str, Any]], target: Sequence[str | int] = ()
) -> list[Path]:
    """Write the entries of a module that `tune gemm` wrote, for each shape; none where it has one config only."""
    with tempfile.TemporaryDirectory(prefix="kernelwright-cache-") as folder:
        Path(folder, "problem_of_cache.py").write_text(find_problem("gemm/gemm").read().source)
        return enter([str(module.parent), folder], module.stem, FUNCTION, workloads, target)


def enter(
    paths: Sequence[str],
    module: str,
    function: str,
    workloads: Sequence[Mapping[str, Any]],
    target: Sequence[str | int],
) -> list[Path]:
    """Call a function at each workload with its times in place of benchmarks; return the files of the entries."""
    task = {
        **{"paths": list(paths), "module": module, "function": function},
        **{"workloads": list(workloads), "target": list(target)},
    }
    allowed = allowed_environment(os.environ, asked_by=_source(Path(paths[0], module.partition(".")[0])))
    environment = {**allowed, "TRITON_CACHE_AUTOTUNING": "1"}
    environment.pop("TRITON_INTERPRET", None)
    failure = "no entry for Triton's cache"
    entered: list[str] = answer_of([str(PROGRAM)], json.dumps(task), TIMEOUT_S, failure, environment=environment)
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
        for one, names in zip(function.kernels, function.constants, strict=True):
            row = {"kernel": one.kernel, "config": {name: config[constant] for name, constant in names.items()}}
            key = json.dumps(row, sort_keys=True)
            if key not in found or latency < found[key]["ms"]:
                found[key] = {**row, "ms": latency}
    return list(found.values())


def _copy(function: UserFunction, folder: Path, files: Mapping[Path, str]) -> tuple[Path, str]:
    """Return the folder from which the user's module is imported, a copy where files change, and its name there."""
    parts = function.module.split(".")
    path = function.target.path
    root = path.parents[len(parts) - (0 if path.name == "__init__.py" else 1)]
    if not files:
        return root, function.module
    package = root / parts[0]
    if package.is_dir():
        shutil.copytree(package, folder / parts[0], ignore=shutil.ignore_patterns("__pycache__"))
    else:
        for item in root.glob("*.py"):
            shutil.copyfile(item, folder / item.name)
    for item, text in files.items():
        if item.is_relative_to(root):
            Path(folder, item.relative_to(root)).write_text(text)
    return folder, function.module
