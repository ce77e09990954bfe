"""One warm server for all tests of the protocol, and KernelBench's evaluation recomputed apart from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Problem
from kernelwright.evaluators.kernelbench.evaluator import KernelBench, KernelBenchSettings
from kernelwright.evaluators.kernelbench.precision import KernelBenchPrecision
from kernelwright.evaluators.pipeline.processes import Processes
from kernelwright.evaluators.settings import Limits

QUICK = KernelBenchSettings(perf_trials=1, timeout_s=60)


@dataclass(frozen=True)
class Case:
    """A candidate for a problem."""

    problem: Problem
    source: str
    backend: str = "cuda"
    precision: KernelBenchPrecision = KernelBenchPrecision.FP32


@pytest.fixture(scope="package")
def processes() -> Iterator[Processes]:
    shared = Processes("cpu", Limits(memory_gib=4, file_gib=0.25))
    yield shared
    shared.close()


@pytest.fixture(scope="package")
def kernelbench(processes: Processes) -> KernelBench:
    return KernelBench(processes, QUICK)


Recompute = Callable[..., Callable[[], dict[str, Any]]]


@pytest.fixture
def recompute() -> Recompute:
    """Starts the recomputation of many cases at once; what it returns waits for the findings."""

    def start(cases: Mapping[str, Case], device: str = "cpu", perf_trials: int = 0) -> Callable[[], dict[str, Any]]:
        told = {
            name: {
                "reference": case.problem.source, "sizes": dict(case.problem.sizes), "candidate": case.source,
                "backend": case.backend, "precision": case.precision, "device": device, "perf_trials": perf_trials,
            }
            for name, case in cases.items()
        }  # fmt: skip
        interpret = {"TRITON_INTERPRET": "1"} if device == "cpu" else {}
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "recomputation.py")],
            env={**os.environ, **interpret, "TILELANG_PRINT_ON_COMPILATION": "0"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(json.dumps(told))
        process.stdin.close()

        def wait() -> dict[str, Any]:
            assert process.stdout is not None
            printed = process.stdout.read()
            assert process.wait(timeout=250) == 0
            found: dict[str, Any] = json.loads(printed.splitlines()[-1])
            return found

        return wait

    return start
