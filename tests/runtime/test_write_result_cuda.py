"""Functions of packages on a GPU: tuned over several workloads, brought back, found in Triton's cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import kernelwright
import pytest

from ..user_packages import RMS_NORM, SCALED_MM, SWIGLU, TRITON, UserPackage, apply, run_tests

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400)]

ALONE = {SWIGLU: [pytest.mark.gpu_alone]}
"""Its references in fp64, of a prompt and of a token at the same time, take several GiB of the GPU."""


@pytest.mark.parametrize(
    "package", [pytest.param(package, id=package.name, marks=ALONE.get(package, [])) for package in TRITON]
)
def test_a_function_is_correct_and_timed_at_every_workload(package: UserPackage, tmp_path: Path) -> None:
    folder = package.copied(tmp_path)
    function, reference, _ = package.at(folder)
    inputs = str(folder / package.gpu_inputs)
    found = kernelwright.evaluate(function, reference=reference, inputs=inputs, device="cuda")
    assert found.correct, found.evaluation
    evaluation = found.evaluation
    assert evaluation is not None and len(evaluation.workloads) >= 2
    assert all(row.latency_ms for row in evaluation.workloads.values())


@pytest.mark.parametrize("package", [RMS_NORM, SCALED_MM], ids=lambda package: package.name)
def test_tuning_ends_in_a_patch_whose_tests_pass(package: UserPackage, tmp_path: Path) -> None:
    folder = package.copied(tmp_path)
    function, reference, inputs = package.at(folder)
    given = {"device": "cuda", "trials": 12, "results": tmp_path / "results", "patch": tmp_path / "out.diff"}
    result = kernelwright.tune(function, reference=reference, inputs=inputs, **given)
    assert result.found.finals and all(final.ok for final in result.found.finals)
    if result.patch is not None:  # a patch is written only where something became faster
        assert (run := apply(result.patch, folder)).returncode == 0, run.stderr
    tested = run_tests(folder, interpreted=False)
    assert tested.returncode == 0, tested.stdout


FRESH = """
import sys
sys.path[:0] = sys.argv[1:]
from triton.runtime import autotuner
def bench(*args, **options):
    raise SystemExit("it was benchmarked")
autotuner.Autotuner._bench = bench
import bench as workloads
from gatedmlp.ops import swiglu, swiglu_torch
import torch
for name, sizes in workloads.WORKLOADS.items():
    inputs = [tensor.cuda() for tensor in workloads.inputs(0, **sizes)]
    torch.testing.assert_close(swiglu(*inputs), swiglu_torch(*inputs), atol=1e-2, rtol=1e-2)
print("unbenchmarked")
"""


def test_a_fresh_process_launches_our_choice_without_benchmarks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernelwright.corpus.functions.triton_cache import enter_timings

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    folder = SWIGLU.copied(tmp_path)
    function, reference, inputs = SWIGLU.at(folder)
    given = {"device": "cuda", "trials": 3, "results": tmp_path / "results"}
    result = kernelwright.tune(function, reference=reference, inputs=inputs, **given)
    times = result.found.evaluations
    assert result.job.function is not None
    assert len(enter_timings(result.job.function, result.job.problem, times, {})) == 2
    environment = {**os.environ, "TRITON_CACHE_AUTOTUNING": "1"}
    command = [sys.executable, "-c", FRESH, str(folder)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.stdout.strip() == "unbenchmarked", run.stderr
