"""A problem, kernels and verdicts that are made up: no compiler, no clock."""

from __future__ import annotations

from kernelwright.core import (
    Ceilings,
    Config,
    Correctness,
    Evaluation,
    Kernel,
    Measurement,
    Origin,
    Profile,
    PythonKernel,
    Status,
    Target,
    TorchProblem,
)
from kernelwright.core.languages import TILELANG

PROBLEM = TorchProblem("level1/1_1", "1_P", "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...")
PROFILE = Profile(
    flops=1e6,
    matrix_flops=0,
    min_bytes=1e6,
    eager_bytes=2e6,
    ceilings=Ceilings(copy_gb_s=10, matrix_gflop_s=100, cores=2),
    device="test",
)
REFERENCE_MS = 10.0


def kernel(latency: float | str, **constants: int) -> Kernel:
    """A kernel whose source says how it will fare."""
    lines = [f"RESULT = {latency!r}", *(f"{name} = {value}" for name, value in constants.items())]
    return PythonKernel(TILELANG, Target.CPU, "\n".join(lines), "k")


def evaluation(kernel: Kernel, config: Config, result: float | str, contention: float | None = None) -> Evaluation:
    if isinstance(result, str):
        return Evaluation(
            status=Status(result),
            kernel_digest=kernel.digest,
            config=dict(config),
            origin=Origin.SIMULATED,
            message="as told",
        )
    return Evaluation(
        status=Status.OK,
        kernel_digest=kernel.digest,
        config=dict(config),
        origin=Origin.SIMULATED,
        correctness=Correctness(seeds=(1,), max_abs_error=0, max_rel_error=0, tolerance=1e-4, passed=True),
        measurement=Measurement(samples_ms=(float(result),) * 3),
        reference=Measurement(samples_ms=(REFERENCE_MS,) * 3),
        cores_used=1.0,
        contention=contention,
    )
