"""Functions of packages, written as users write theirs, from the command to a patch that applies: gains by workload.

    python benchmarks/user_functions.py [--device cuda] [--trials 40] [--folder DIR] [--json FILE] [PACKAGE ...]

Each function is optimized by the rules and then tuned, over all its workloads at once. For each workload: the start
(the first config in the function's own decorator), the fastest of the function's own configs, which is what Triton's
autotuner would take, and the result. At the end the patch is applied to a copy, whose own tests are run.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kernelwright
from command import run_benchmark
from kernelwright.commands.tune.kernel import Result
from kernelwright.core import Config, Evaluation
from kernelwright.corpus.functions.triton_cache import workload_keys
from kernelwright.runtime.write_result import select_autotune_configs

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.user_packages import LINEAR, TRITON, UserPackage, apply, run_tests

PACKAGES = {item.name: item for item in (*TRITON, LINEAR)}


def measured(package: UserPackage, device: str, trials: int, folder: Path) -> dict[str, Any]:
    """Optimize, then tune, each from the package as it is, and take the patch of the faster one."""
    copy = package.copied(folder)
    function, reference, inputs = package.at(copy)
    given: dict[str, Any] = {"reference": reference, "inputs": inputs, "device": device, "results": folder / "results"}
    if device != "cpu" and package.gpu_inputs:
        given["inputs"] = str(copy / package.gpu_inputs)
    run = kernelwright.optimize(function, **given, model="rules", target_speedup=1000, patch=folder / "optimize.diff")
    tuned = kernelwright.tune(function, **given, trials=trials, patch=folder / "tune.diff")
    start, best, patch = run.outcome.start, run.outcome.best, run.patch
    after = [best]
    if tuned.patch is not None and (patch is None or (tuned.found.best or best).latency_ms < best.latency_ms):
        best, patch = tuned.found.best or best, tuned.patch
        after = in_patch(tuned)
    own = {Config(item) for item in tuned.job.kernel.declared_configs}
    theirs = [
        evaluation for evaluation in tuned.found.evaluations if Config(evaluation.config) in own and evaluation.ok
    ]
    rows = {
        name: {
            "start_ms": row.latency_ms,
            "own_configs_ms": least_ms(theirs, name),
            "best_ms": least_ms(after, name),
            "reference_ms": row.reference_ms,
        }
        for name, row in start.workloads.items()
    }
    gains = [(row["start_ms"] or 0.0) / (row["best_ms"] or math.inf) for row in rows.values()]
    found: dict[str, Any] = {
        "package": package.name,
        "gain": statistics.geometric_mean(gains),
        "workloads": rows,
        "statuses": [str(start.status), str(best.status)],
        "verified": run.verified,
        "disturbed": best.contention is not None,
        "patch": patch is not None,
    }
    if patch is not None:
        applied: subprocess.CompletedProcess[str] = apply(patch, copy)
        tests = run_tests(copy, interpreted=False)
        found |= {"applies": applied.returncode == 0, "tests": tests.stdout.strip().splitlines()[-1:]}
    return found | {"environment": best.environment}


def in_patch(tuned: Result) -> list[Evaluation]:
    """Return the evaluations of the configs among which the patched function's autotuner chooses."""
    best = tuned.found.best if tuned.faster else tuned.own_constants
    assert best is not None and tuned.job.function is not None
    configs = select_autotune_configs(best, tuned.compared, workload_keys(tuned.job.function, tuned.job.problem))
    return [item for item in (best, *tuned.compared) if Config(item.config) in configs and item.ok]


def least_ms(evaluations: Sequence[Evaluation], workload: str) -> float | None:
    """Return the least time at a workload; None without evaluations."""
    return min((evaluation.workloads[workload].latency_ms or math.inf for evaluation in evaluations), default=None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=", ".join(PACKAGES))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--folder", type=Path, help="for copies, patches and journals, which are kept there")
    parser.add_argument("--json", type=Path, help="write the metrics to this file too, after each package")
    options = parser.parse_args()
    default = [LINEAR.name] if options.device == "cpu" else [item.name for item in TRITON]
    results = []
    for name in options.packages or default:
        with tempfile.TemporaryDirectory(prefix="kernelwright-functions-") as temporary:
            folder = options.folder / name if options.folder else Path(temporary)
            if options.folder and folder.exists():
                parser.error(f"{folder} exists; remove it, or give another --folder")
            results.append(measured(PACKAGES[name], options.device, options.trials, folder.absolute()))
        print(json.dumps(results[-1]), flush=True)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    run_benchmark(main)
