"""Patches of public packages, end to end: several files at once, a method of a class, configs that a function makes.

    python benchmarks/real_patches.py --folder DIR --sources DIR [--json FILE]

The packages of real_functions/functions.yaml are installed into --folder, and the sources that PyPI has of them, which
contain their tests, are loaded into --sources. A change that an optimization might make is brought back as a patch: the
package with it is imported in new processes and checked in Triton's interpreter. The patch is applied to a copy of the
package, by `git apply` and by `patch -p1`. The package's own tests then run in the interpreter: those that pass without
the patch must pass with it. Where there are none, the patched function is evaluated against its reference.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from command import run_benchmark
from kernelwright.core import Config, PythonKernel
from kernelwright.core.user_package import CandidateText
from kernelwright.corpus.functions.patch import write_patch
from kernelwright.corpus.functions.translation import UserFunction, translate
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.runtime.evaluators import at_workloads
from real_functions import FOLDER, INTERPRETER, entries_and_packages, installed

PASSED = " PASSED"


@dataclass(frozen=True)
class Change:
    """A function of a package, and what becomes of it."""

    kind: str
    package: str
    top: str
    """What is imported."""
    function: str
    bench: str
    inputs: str
    small: str
    """The sizes for the interpreter."""
    texts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By the file's label: what is replaced, and by what."""
    config: int | None = None
    """The number of its own config that is the fastest."""
    tests: str = ""
    """The file of its tests in the sources; without it, the function is evaluated."""

    def candidate(self, function: UserFunction) -> tuple[PythonKernel, list[Config]]:
        """Return the kernel that an optimization made, and the configs for its autotuners."""
        if self.config is not None:
            best = Config(function.kernel.declared_configs[self.config])
            return function.kernel.bind(best), [best]
        parts = CandidateText.of(function.kernel.source)
        files = dict(parts.files)
        for label, (before, after) in self.texts.items():
            if before not in files[label]:
                raise SystemExit(f"{label} has no {before!r}; this benchmark is for another version")
            files[label] = files[label].replace(before, after)
        return replace(function.kernel, source=replace(parts, files=files).source), []


CHANGES = (
    Change(
        kind="two files",
        package="conch-triton-kernels",
        top="conch",
        function="conch/ops/normalization/rms_norm.py::rms_norm",
        bench="bench_norms.py::rms_norm",
        inputs="bench_norms.py::rms_norm_inputs",
        small="rows=8,dim=64",
        texts={
            "conch/kernels/normalization/rms_norm.py": (
                "mean_of_squares = tl.sum(x * x) / hidden_size",
                "mean_of_squares = tl.sum(x * x) * (1.0 / hidden_size)",
            ),
            "conch/ops/normalization/rms_norm.py": (
                "torch.empty_like(x, dtype=x.dtype, device=x.device)",
                "torch.empty_like(x)",
            ),
        },
        tests="tests/rms_norm_test.py",
    ),
    Change(
        kind="a method of a class, and its kernel",
        package="liger-kernel",
        top="liger_kernel",
        function="liger_kernel/transformers/softmax.py::LigerSoftmax.forward",
        bench="bench_patches.py::softmax",
        inputs="bench_patches.py::softmax_method_inputs",
        small="rows=8,dim=64",
        texts={
            "liger_kernel/transformers/softmax.py": (
                "return LigerSoftmaxFunction.apply(x)",
                "return LigerSoftmaxFunction.apply(x.contiguous())",
            ),
            "liger_kernel/ops/softmax.py": ("y = e / d", "y = e * (1.0 / d)"),
        },
        tests="test/transformers/test_softmax.py",
    ),
    Change(
        kind="configs that a function makes",
        package="lmdeploy",
        top="lmdeploy",
        function="lmdeploy/pytorch/kernels/cuda/fused_lora.py::fused_lora",
        bench="bench_experts.py::lora",
        inputs="bench_experts.py::lora_inputs",
        small="batch=2,length=8,dim=64,rank=16,adapters=2",
        config=1,
    ),
)


def sources(change: Change, version: str, folder: Path) -> Path:
    """Return the unpacked sources of a package."""
    target = folder / change.package
    if not target.is_dir():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        with tempfile.TemporaryDirectory() as loaded:
            subprocess.run([*command, "--dest", loaded, f"{change.package}=={version}"], check=True)
            (archive,) = Path(loaded).glob("*.tar.gz")
            with tarfile.open(archive) as opened:
                opened.extractall(loaded, filter="data")
            shutil.move(next(path for path in Path(loaded).iterdir() if path.is_dir()), target)
    return target


def passed(tests: Path, change: Change, *paths: Path) -> set[str]:
    """Return the names of the package's own tests that pass in the interpreter."""
    environment = {**os.environ, **INTERPRETER, "PYTHONPATH": os.pathsep.join([*map(str, paths), str(tests)])}
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--tb=no", change.tests]
    ran = subprocess.run(command, cwd=tests, env=environment, capture_output=True, text=True)
    return {line.partition(PASSED)[0] for line in ran.stdout.splitlines() if PASSED in line}


def applied(patch: Path, copy: Path, *command: str) -> None:
    """Apply a patch to a copy of a package, or end."""
    ran = subprocess.run([*command, str(patch)], cwd=copy, capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)}: {ran.stdout}{ran.stderr}")


def evaluated(change: Change, copy: Path, target: Path) -> str:
    """Return what `evaluate` says of the function as it is in a copy."""
    environment = {**os.environ, **INTERPRETER}
    environment["PYTHONPATH"] = os.pathsep.join([str(copy), str(target), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "kernelwright", "evaluate", "--kernel", str(copy / change.function), "--json"]
    command += ["--reference", str(FOLDER / change.bench), "--inputs", str(FOLDER / change.inputs), "--device", "cpu"]
    ran = subprocess.run([*command, "--workload", change.small], env=environment, capture_output=True, text=True)
    return str(json.loads(ran.stdout)["status"]) if ran.returncode == 0 else (ran.stderr or ran.stdout)[-300:]


def measured(change: Change, target: Path, version: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what became of one patch; raises what writing it raises."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ignored = shutil.ignore_patterns("__pycache__")
        copies = [folder / name for name in ("first", "second")]
        for copy in copies:
            shutil.copytree(target / change.top, copy / change.top, ignore=ignored)
        first, second = copies
        sys.path[:0] = [str(first), str(target)]
        os.environ["PYTHONPATH"] = os.pathsep.join([str(first), str(target), os.environ.get("PYTHONPATH", "")])
        bench, inputs = str(FOLDER / change.bench), str(FOLDER / change.inputs)
        function = translate(str(first / change.function), bench, inputs)
        kernel, configs = change.candidate(function)
        patch, start = folder / "out.diff", time.perf_counter()
        evaluator = at_workloads(lambda: LocalEvaluator("cpu"), stack)
        problem = function.problem.at(change.small)
        files = write_patch(patch, function, kernel, configs, evaluator, problem)
        seconds = time.perf_counter() - start
        applied(patch, first, "git", "apply")
        applied(patch, second, "patch", "-p1", "--no-backup-if-mismatch", "-i")
        same = all(file.read_text() == (second / file.relative_to(first)).read_text() for file in files)
        found: dict[str, Any] = {"kind": change.kind, "package": f"{change.package} {version}"}
        found |= {"function": change.function, "files": [str(file.relative_to(first)) for file in files]}
        found |= {"patch_s": round(seconds, 1), "applies": same, "lines": len(patch.read_text().splitlines())}
        if change.tests:
            tests = sources(change, version, arguments.sources)
            before, after = passed(tests, change, target), passed(tests, change, first, target)
            return {**found, "tests_before": len(before), "tests_after": len(after), "passes": before <= after}
        status = evaluated(change, first, target)
        return {**found, "evaluated": status, "passes": status == "ok"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    os.environ |= INTERPRETER
    _, packages = entries_and_packages()
    rows = []
    for change in CHANGES:
        package = packages[change.package]
        target = installed(change.package, package, arguments.folder)
        rows.append(measured(change, target, str(package["version"]), arguments))
        print(json.dumps(rows[-1]), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    return int(not all(row["applies"] and row["passes"] for row in rows))


if __name__ == "__main__":
    run_benchmark(main)
