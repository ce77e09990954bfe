"""What tools return, from verdicts that are made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kernelwright.api.explain import explain
from kernelwright.api.jobs import Job
from kernelwright.api.list_slow import Listing, SlowKernel
from kernelwright.api.optimize_result import OptimizeResult
from kernelwright.api.profile import ProfileResult
from kernelwright.api.verdicts import ProtocolVerdicts
from kernelwright.core import Budget, Config, Evaluation, PythonKernel, Rejection, SecondWorkload, Status
from kernelwright.core.bottleneck import find_bottleneck
from kernelwright.mcp_server.results.bottleneck import Profiled
from kernelwright.mcp_server.results.listing import SlowList
from kernelwright.mcp_server.results.reading import Explanation
from kernelwright.mcp_server.results.runs import Optimized, Tuned
from kernelwright.mcp_server.results.verdict import Verdict

from ..agent.made_up import listed, run
from ..api.tunings import OTHER, OWN, timed, tuned
from ..conftest import SCALE_KERNEL
from ..fakes import PROBLEM, PROFILE, evaluation, kernel

KERNEL = PythonKernel.parse(SCALE_KERNEL, "scale")
JOB = Job(kernel(5.0), PROBLEM, "cpu", "k.py")


def verdict(one: Evaluation) -> Verdict:
    return Verdict.of("k.py", ProtocolVerdicts("level1/1_1", "tiny", one))


def test_a_correct_kernel() -> None:
    found = verdict(evaluation(kernel(5.0), Config(), 5.0))
    assert (found.kernel, found.problem, found.workload) == ("k.py", "level1/1_1", "tiny")
    assert (found.correct, found.latency_ms, found.reference_ms, found.speedup) == (True, 5.0, 10.0, 2.0)
    assert found.warnings == [] and "profile" in found.next


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"contention": 0.7}, "other processes used 0.7 cores"),
        ({"second_workload": SecondWorkload(sizes={"n": 7}, status=Status.WRONG_VALUE)}, "wrong_value at n=7"),
    ],
)
def test_what_is_doubtful_is_a_warning(change: dict[str, object], says: str) -> None:
    (warning,) = verdict(evaluation(kernel(5.0), Config(), 5.0).model_copy(update=change)).warnings
    assert says in warning


def test_a_rule_that_was_broken() -> None:
    rule = Rejection(rule="torch-operator", where="line 3: torch.mm(x, w)", why="compute it in the kernel.")
    found = verdict(evaluation(kernel(5.0), Config(), "rejected").model_copy(update={"rejection": rule}))
    assert (found.status, found.rule, found.latency_ms) == (Status.REJECTED, rule, None)
    assert found.message == "torch-operator (line 3: torch.mm(x, w)): compute it in the kernel."


def test_a_failure_is_explained() -> None:
    failed = evaluation(KERNEL, Config(), "runtime_error")
    found = Explanation.of("k.py", explain(KERNEL, failed))
    assert found.text.startswith("runtime_error: as told") and found.guide == "tilelang_cpu"
    assert "Kernel file" in found.sections and "fix what the exception names" in found.next


@pytest.mark.parametrize(("latency", "next_step"), [(0.104, "stop"), (5.0, "change one thing against")])
def test_a_profile(latency: float, next_step: str) -> None:
    one = evaluation(kernel(latency), Config(), latency)
    found = Profiled.of("k.py", ProfileResult(JOB, one, PROFILE, find_bottleneck(PROFILE, latency, cores_used=1.0)))
    assert found.floor_ms == 0.1 and found.times_floor == pytest.approx(latency / 0.1)
    assert found.bytes_gb_s == pytest.approx(1 / latency) and found.peak_gb_s == 10
    assert found.bottleneck is not None and found.bottleneck.evidence
    assert found.next.startswith(next_step)


def test_a_profile_of_a_kernel_that_fails() -> None:
    found = Profiled.of("k.py", ProfileResult(JOB, evaluation(kernel(1.0), Config(), "crashed"), None, None))
    assert (found.correct, found.floor_ms, found.bottleneck, found.parts) == (False, None, None, [])


def test_a_search_that_found_a_faster_config(tmp_path: Path) -> None:
    finals = (timed(OTHER, 2.0), timed(Config(), 4.0))
    found = Tuned.of("tune-k-1", "k.py", tuned(tmp_path, *finals), lambda path: str(path.relative_to(tmp_path)))
    assert (found.faster, found.best_config, found.times_as_fast) == (True, {"BLOCK": 4}, 2.0)
    assert (found.start_ms, found.best_ms, found.configs, found.trials) == (4.0, 2.0, 2, 1)
    assert (found.saved_kernel, found.journal) == ("1_999_tuned_2.000x.py", "journal.jsonl")


def test_a_search_that_found_none(tmp_path: Path) -> None:
    own = Tuned.of("r", "k.py", tuned(tmp_path, timed(OWN, 4.0), timed(Config(), 4.0)), str)
    assert (own.faster, own.saved_kernel) == (False, None) and "keep the constants" in own.next
    failed = tuned(tmp_path, trials=(evaluation(KERNEL, OTHER, "compile_error"),))
    nothing = Tuned.of("r", "k.py", failed, str)
    assert (nothing.best_config, nothing.failed, nothing.statuses) == (None, 1, {"compile_error": 1})


def test_a_run(tmp_path: Path) -> None:
    outcome = run(tmp_path, kernel(20.0), listed(kernel(8.0), kernel("wrong_value"), kernel(4.0)))
    result = OptimizeResult(
        JOB, outcome, tmp_path / "fast.py", tmp_path / "h.json", tmp_path / "journal.jsonl", 1.5, "rules", Budget()
    )
    found = Optimized.of("optimize-k-1", "k.py", result, lambda path: path.name)
    assert (found.start_ms, found.best_ms, found.times_as_fast, found.speedup) == (20.0, 4.0, 5.0, 2.5)
    assert (found.saved_kernel, found.journal) == ("fast.py", "journal.jsonl") and found.verified
    assert [turn.improved for turn in found.turns[:3]] == [True, False, True]
    assert [turn.speedup for turn in found.turns[:3]] == [1.25, None, 2.5]
    assert found.faster and result.summary()["gain"] == 5.0
    assert "stop at the roofline" in found.next
    (tmp_path / "same").mkdir()
    same = replace(result, outcome=run(tmp_path / "same", kernel(20.0), listed(kernel(30.0))), kernel=None)
    nothing = Optimized.of("r", "k.py", same, str)
    assert nothing.saved_kernel is None and not nothing.faster and "no rule made it faster" in nothing.next


def test_slow_kernels() -> None:
    row = SlowKernel(0.5, "SLOW", "level1/1_1.py", 2.0, 1.0, "1_P", "tiny", "test", 0.9, None, "fp32")
    found = SlowList.of(Listing((row,), 3, ("x: wrong",), (), (row,)), lambda name: name)
    assert (found.slow[0].kernel, found.slow[0].disturbed, found.measured) == ("level1/1_1.py", True, 3)
    assert found.failed == ["x: wrong"] and "profile" in found.next
