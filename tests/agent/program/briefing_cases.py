"""Turns that are made up, and what a model is sent of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from kernelwright.agent.applied_rules import AppliedRules
from kernelwright.agent.bottleneck import Analysis, Category, analyse
from kernelwright.agent.program.proposer import ModelProposer
from kernelwright.agent.proposer import TurnContext
from kernelwright.agent.rules import Machine
from kernelwright.agent.turn import Attempt, Candidate, Turn
from kernelwright.core import (
    Ceilings,
    Correctness,
    DeviceKernel,
    DeviceLimits,
    Evaluation,
    Kernel,
    KernelProfile,
    Measurement,
    Profile,
    Proposal,
    PythonKernel,
    Status,
    TorchProblem,
)

from ...conftest import SCALE_KERNEL, SCALE_PROBLEM
from ..conversations.telling import submit
from .stand import TRITON, Heard, OneExample, requests, stand, textual

PROBLEM = TorchProblem("level1/1_999", "999_Scale", SCALE_PROBLEM)
CPU = Profile(
    flops=2**21,
    matrix_flops=0,
    min_bytes=2**24,
    eager_bytes=2**24,
    operators=("aten::mul",),
    ceilings=Ceilings(copy_gb_s=12.5, matrix_gflop_s=180, cores=2),
    device="a processor",
)
GPU = CPU.model_copy(
    update={
        "device": "NVIDIA H200",
        "ceilings": Ceilings(copy_gb_s=4000, matrix_gflop_s=480_000, cores=132),
        "limits": DeviceLimits(
            architecture="sm_90", multiprocessors=132, shared_bytes=232_448, registers=65_536, threads=2048
        ),
    }
)
RAN = KernelProfile(
    kernels=(
        DeviceKernel(
            name="scale", launches=1, time_ms=0.0088, own=True, registers=32, spills=0, shared_bytes=0, threads=128,
            blocks=8192, occupancy=1.0, limited_by="threads", resident_blocks=16,
        ),
        DeviceKernel(
            name="void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>", launches=2,
            time_ms=0.002, own=False, registers=16, threads=128, blocks=2048,
        ),
    ),
)  # fmt: skip
WRONG = (
    "32 of 8192 elements differ by more than 0.0001; the first at (0, 255): 2.1701e-18 against 0.00167419; "
    "largest error 3.57e+03"
)
REFUSED = """\
CompilationError: at 6:4:
def scale(x, w, y, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < N
    value = tl.load(x + row * N + at, mask=mask)
    factor = tl.load(w + at, msk=mask)
             ^
TypeError("load() got an unexpected keyword argument 'msk'")
line 28: scale[(x.shape[0],)](x, self.weight, y, x.shape[1], BLOCK=BLOCK)"""
CASES = {
    "tilelang_cpu": (PythonKernel.parse(SCALE_KERNEL), PROBLEM.at("cpu"), CPU, 4.0),
    "triton": (PythonKernel.parse(TRITON), PROBLEM.at("default"), GPU, 0.0125),
}


def right(kernel: Kernel, ms: float, reference_ms: float, cores: float | None = None, **config: int) -> Evaluation:
    return Evaluation(
        status=Status.OK,
        kernel_digest=kernel.digest,
        config=dict(config),
        correctness=Correctness(seeds=(1, 2), max_abs_error=0, max_rel_error=0, tolerance=1e-4, passed=True),
        measurement=Measurement(samples_ms=(ms,) * 5),
        reference=Measurement(samples_ms=(reference_ms,) * 5),
        cores_used=cores,
    )


def wrong(kernel: Kernel, status: Status, message: str, log: str = "") -> Evaluation:
    return Evaluation(status=status, kernel_digest=kernel.digest, message=message, log=log)


def proposed(kernel: Kernel, strategy: str, rationale: str) -> Proposal:
    return Proposal(kernel, strategy, "memory", rationale)


def a_past(kernel: Kernel, start: Candidate, metrics: Analysis, ms: float) -> list[Turn]:
    """Two turns: one that helped after a repair, one in which nothing was correct."""
    faster = Candidate(kernel, right(kernel, ms / 1.5, ms / 2, 1.0, BLOCK=16))
    failure = wrong(kernel, Status.WRONG_VALUE, WRONG)
    first = Turn(
        1, 0, metrics, start,
        (
            Attempt(proposed(kernel, "wider rows", "Wider."), (failure,), f"wrong_value: {WRONG}"),
            Attempt(proposed(kernel, "wider rows", "Rows of 16 share each load."), (faster.evaluation,)),
        ),
        faster, True, 1.5,
    )  # fmt: skip
    refused = wrong(kernel, Status.COMPILE_ERROR, REFUSED)
    second = Turn(
        2, 0, metrics, faster,
        (
            Attempt(None, (), "the reply contains no kernel; send the whole file"),
            Attempt(proposed(kernel, "mask", "The mask is a constant."), (refused,), f"compile_error: {REFUSED}"),
        ),
        None, False, 1.0,
    )  # fmt: skip
    return [first, second]


def context(folder: Path, case: str, past: bool) -> TurnContext:
    kernel, problem, profile, ms = CASES[case]
    measured = right(kernel, ms, ms / 2, None if profile.limits else 1.0)
    start = Candidate(kernel, measured.model_copy(update={"kernel_profile": RAN if profile.limits else None}))
    metrics = analyse(profile, kernel, start.evaluation)
    turns = a_past(kernel, start, metrics, ms) if past else []
    candidate = turns[0].found or start if turns else start
    told = dataclasses.replace(
        metrics,
        category=Category.MEMORY,
        evidence=("one row per block: 132 blocks of 32 rows",),
        suggestions=("several rows per block: the grid; fewer launches of the same load (expected 1.4x)",),
    )
    lane = stand(folder, number=len(turns) + 1).lane
    return TurnContext(problem, profile, candidate, told if past else metrics, turns, lane)


def failed_attempts(kernel: Kernel) -> Sequence[Attempt]:
    error = "/tmp/x.cpp:12:5: error: 'expf2' was not declared in this scope"
    failures = (
        wrong(kernel, Status.COMPILE_ERROR, "RuntimeError: Compilation Failed! ['g++', '-O3']", log=error),
        wrong(kernel, Status.WRONG_VALUE, WRONG),
    )
    attempts = [Attempt(None, (), "the reply contains no kernel; send the whole file")]
    return [*attempts, *(Attempt(proposed(kernel, "s", "r"), (f,), f"{f.status}: {f.message}") for f in failures)]


def request(folder: Path, part: str, where: TurnContext) -> str:
    """What is sent to a model without tool calls of its own."""
    models = textual(folder, [submit(where.candidate.kernel.source, "s", "r")])
    rules = AppliedRules(Machine(cores=2, multiprocessors=132))
    proposer = ModelProposer(models, Heard(), OneExample(), skipped_rules=rules.skipped)
    if part == "analyse":
        proposer.analyse(where)
    else:
        proposer.propose(where, failed_attempts(where.candidate.kernel) if part == "repair" else ())
    (sent,) = requests(models)
    (message,) = sent["messages"]
    return f"{sent['system']}\n\n{'=' * 100}\n\n{message['text']}\n"
