"""What the local evaluator promises beyond its statuses."""

from __future__ import annotations

import contextlib
import random
import threading
from pathlib import Path
from typing import Any, cast

import pytest
from kernelwright.core import (
    Config,
    Kernel,
    KernelError,
    ProblemError,
    PythonKernel,
    Status,
    TorchProblem,
)
from kernelwright.evaluators.candidate.client import CandidateClient
from kernelwright.evaluators.candidate.verified import CheckPlan
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.reference.client import ReferenceClient
from kernelwright.evaluators.workers.channel import Message
from kernelwright.evaluators.workers.problem_file import problem_options

from ..conftest import FAST, SCALE_PROBLEM, torch_kernel
from ..triton_scale import TRITON_KERNEL


def test_a_speedup_lies_in_its_interval(
    evaluator: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    (evaluation,) = evaluator.evaluate(scale_problem, scale_kernel, [Config({"BLOCK": 4})])
    assert evaluation.speedup is not None
    assert evaluation.speedup.low <= evaluation.speedup.ratio <= evaluation.speedup.high
    assert evaluation.compile_s is not None and evaluation.compile_s > 0


def test_a_crash_costs_one_config(evaluator: LocalEvaluator, scale_problem: TorchProblem) -> None:
    kernel = torch_kernel("import os; os._exit(1) if SIZE == 2 else None; return x * self.weight", top="SIZE = 1")
    configs = [Config({"SIZE": size}) for size in (1, 2, 3)]
    statuses = [e.status for e in evaluator.evaluate(scale_problem, kernel, configs)]
    assert statuses == [Status.OK, Status.CRASHED, Status.OK]


def test_seeds_are_drawn_per_run_and_written_down(scale_problem: TorchProblem, scale_kernel: Kernel) -> None:
    with LocalEvaluator(settings=FAST, rng=random.Random(5)) as evaluator:
        first, second = (next(iter(evaluator.evaluate(scale_problem, scale_kernel, [Config()]))) for _ in range(2))
    assert first.correctness is not None
    assert second.correctness is not None
    assert len({*first.correctness.seeds, *second.correctness.seeds}) == 4


def test_weights_change_between_trials(evaluator: LocalEvaluator, scale_problem: TorchProblem) -> None:
    remembers = torch_kernel(
        "import builtins; w = getattr(self, 'kept', None); self.kept = self.weight.clone() if w is None else w; "
        "return x * self.kept"
    )
    evaluation = next(iter(evaluator.evaluate(scale_problem, remembers, [Config()])))
    assert evaluation.status is Status.WRONG_VALUE


def test_triton_on_a_cpu_is_checked_not_timed(evaluator: LocalEvaluator, scale_problem: TorchProblem) -> None:
    kernel = PythonKernel.parse(TRITON_KERNEL)
    evaluation = next(iter(evaluator.evaluate(scale_problem.at("tiny"), kernel, [Config()])))
    assert (evaluation.status, evaluation.message) == (Status.OK, "checked, not timed")
    assert evaluation.measurement is None
    assert evaluation.speedup is None


def test_inputs_that_fail_are_the_problems_fault(evaluator: LocalEvaluator, scale_kernel: Kernel) -> None:
    source = SCALE_PROBLEM.replace("return [torch.randn(rows, columns)]", "return [undefined]")
    broken = TorchProblem(id="level1/1_998", name="998_Broken", source=source)
    with pytest.raises(ProblemError, match="undefined"):
        list(evaluator.evaluate(broken, scale_kernel, [Config()]))


def test_a_cuda_kernel_is_refused_on_a_cpu(evaluator: LocalEvaluator, scale_problem: TorchProblem) -> None:
    kernel = PythonKernel.parse("import tilelang.language as T\nclass ModelNew: ...\n")
    with pytest.raises(KernelError, match="written for cuda"):
        list(evaluator.evaluate(scale_problem, kernel, [Config()]))


def test_profile_counts_the_reference(evaluator: LocalEvaluator, scale_problem: TorchProblem) -> None:
    profile = evaluator.profile(scale_problem)
    assert profile.min_bytes == 4 * (2 * 32 * 256 + 256)
    assert profile.flops == 32 * 256
    assert profile.matrix_flops == 0
    assert profile.operators == ("mul",)
    assert profile.ceilings.copy_gb_s > 0


def test_nothing_is_left_behind(scale_problem: TorchProblem, scale_kernel: Kernel) -> None:
    with LocalEvaluator(settings=FAST) as evaluator:
        folder, server = evaluator.processes.folder, evaluator.processes.server.pid
        list(evaluator.evaluate(scale_problem, scale_kernel, [Config()]))
        assert folder.exists()
    assert not folder.exists()
    assert not Path(f"/proc/{server}").exists()


@pytest.mark.parametrize("unreadable", [0, 1])
def test_outputs_go_through_a_file_where_memory_cannot_be_shared(
    evaluator: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel, unreadable: int
) -> None:
    """Whether it is the candidate that cannot hand it over, as here on a CPU, or the reference worker that cannot open
    it."""
    reference_client = evaluator.processes.reference_client(scale_problem)
    checks: list[Message] = []

    class Blind:
        problem, effects = reference_client.problem, reference_client.effects
        written_weights, side_effects = reference_client.written_weights, reference_client.side_effects

        def call(self, op: str, **arguments: Any) -> Message:
            answer = reference_client.call(op, **arguments)
            if op == "check":
                checks.append(answer)
                if len(checks) <= unreadable:
                    return {"status": "crashed", "message": "cannot be opened", "unreadable": True}
            return answer

        verdict = call

    new_worker = evaluator.processes.candidate(scale_problem)
    with contextlib.closing(CandidateClient(scale_kernel, FAST.limits, new_worker, share=True)) as bench:
        checked = bench.check(cast(ReferenceClient, Blind()), Config(), CheckPlan((1, 2), thorough=False))
    assert checked.correctness.passed and len(checks) == 2 + unreadable


def test_a_problem_is_never_seen_half_written(tmp_path: Path) -> None:
    """Workers read the file while the next one's options are made."""
    source = SCALE_PROBLEM + "# padding\n" * 20_000 + "LAST = True\n"
    problem = TorchProblem(id="level1/1_997", name="997_Long", source=source)
    path = Path(problem_options(problem, tmp_path)["problem"])
    done = threading.Event()

    def rewrite() -> None:
        while not done.is_set():
            problem_options(problem, tmp_path)

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        assert all(path.read_text() == source for _ in range(300))
    finally:
        done.set()
        writer.join()
