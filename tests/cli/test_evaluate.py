"""`kernelwright evaluate` by KernelBench's protocol, beside the strict one, and over a run folder."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kernelwright.cli.main import app
from kernelwright.commands._evaluate.folder import describe_fast_p
from kernelwright.commands._evaluate.verdict import Result, describe_evaluation
from kernelwright.commands._optimize.result import exactness_line
from kernelwright.core import Config, Correctness, Rejection
from kernelwright.evaluators.kernelbench.result import KernelBenchResult
from typer.testing import CliRunner

from ..fakes import evaluation, kernel
from .commands import SCALE, kernelwright, refused_here

QUICK = ("--device", "cpu", "--sandbox", "none", "--perf-trials", "1")


def test_the_error_shown_is_that_on_the_problems_own_inputs() -> None:
    """Those of other distributions may be of any magnitude."""
    original = evaluation(kernel("1.0"), Config(), 1.0)
    assert original.correctness is not None
    checked = original.correctness.model_copy(update={"max_abs_error": 7e18, "own_errors": (2e-6, 1e-6)})
    shown = original.model_copy(update={"correctness": checked})
    text = describe_evaluation(Result(problem="level1/1_1", workload="default", evaluation=shown), shown)
    assert "largest error 2e-06 in" in text and "remark" not in text


def test_what_the_sanitizer_says_is_told() -> None:
    original = evaluation(kernel("1.0"), Config(), 1.0)
    for said, line in (({"memcheck": "clean"}, "\ncompute-sanitizer: memcheck clean"), ({}, None)):
        shown = original.model_copy(update={"sanitizer": said})
        text = describe_evaluation(Result(problem="level1/1_1", workload="default", evaluation=shown), shown)
        assert line in text if line else "sanitizer" not in text


def test_a_lower_precision_than_the_references_is_a_remark() -> None:
    original = evaluation(kernel("1.0"), Config(), 1.0)
    assert original.correctness is not None
    checked = original.correctness.model_copy(update={"error_fp64": 2e-4, "torch_error_fp64": 1e-7})
    shown = original.model_copy(update={"correctness": checked})
    text = describe_evaluation(Result(problem="level1/1_1", workload="default", evaluation=shown), shown)
    assert "\nremark: less exact than the reference: " in text
    result: Any = SimpleNamespace(outcome=SimpleNamespace(best=shown))
    assert (exactness_line(result) or "").startswith("remark: less exact than the reference: ")
    result.outcome.best = original
    assert exactness_line(result) is None


def test_both_protocols_and_a_run_folder(kernel_file: Path) -> None:
    """One kernel is evaluated by both protocols and stored; then the rest of the folder; then nothing is left."""
    here = kernel_file.parent
    arguments = ["evaluate", "--kernel", str(kernel_file), *SCALE, "--perf-trials", "1", "--run-folder", "run"]
    run = kernelwright(*arguments, "--protocol", "both", "--json", cwd=here)
    assert run.returncode == 0, run.stderr + run.stdout
    found = json.loads(run.stdout)
    assert (found["problem"], found["status"]) == ("level1/1_999", "ok")
    assert found["kernelbench"]["correctness"] and found["kernelbench"]["speedup"] > 0
    filed = here / "run" / "level_1_problem_999_sample_0_kernel.py"
    assert filed.read_text() == kernel_file.read_text()

    wrong = filed.with_name("level_1_problem_999_sample_1_kernel.py")
    wrong.write_text(filed.read_text().replace("* W[j]", "+ W[j]"))
    filed.with_name("level_1_problem_999_sample_2_kernel.py").write_text("class ModelNew(:\n")
    folder = ["evaluate", *QUICK, "--run-folder", "run", "--dataset", ".", "--workload", "tiny"]
    run = kernelwright(*folder, "--protocol", "both", cwd=here)
    assert run.returncode == 1, run.stderr
    assert "Traceback" not in run.stderr
    assert "wrong_value" in run.stdout and "incorrect" in run.stdout and "Output mismatch" in run.stdout
    assert "not compiled" in run.stdout and "no kernel" in run.stdout
    printed = [line for line in run.stdout.splitlines() if line.startswith("fast_p over 1 problem: 0: 1.00")]
    assert [line.rpartition("(")[2] for line in printed] == ["strict)", "kernelbench)"]
    strict = json.loads((here / "run" / "strict_results.json").read_text())["999"]
    assert {number: result["status"] for number, result in strict.items()}.items() >= {
        "0": "ok",
        "1": "wrong_value",
    }.items()
    entries = json.loads((here / "run" / "eval_results.json").read_text())["999"]
    assert [(entry["sample_id"], entry["compiled"], entry["correctness"]) for entry in entries] == [
        (0, True, True),
        (1, True, False),
        (2, False, False),
    ]
    assert entries[0]["runtime"] == found["kernelbench"]["runtime"]
    assert entries[1]["metadata"]["correctness_trials"] == "(0 / 5)"

    again = CliRunner().invoke(app, [*folder[:-5], str(here / "run"), "--dataset", str(here), "--json"])
    assert again.exit_code == 0, again.stderr
    assert json.loads(again.stdout)["results"] == []
    assert json.loads(again.stdout)["fast_p"]["0.0"] == 1.0
    printed = [kernelwright(*folder, cwd=here).stdout]
    assert "(by kernelbench alone, which proves no speedup)" in printed[0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "give --kernel, or --run-folder"),
        (("--kernel", "1_19", "--sample-id", "1"), "add --run-folder"),
        (("--kernel", "1_19", "--run-folder", "run", "--sample-id", "-1"), "--sample-id must be at least 0"),
        (("--kernel", "1_19", "--run-folder", "run", "--protocol", "strict"), "set --protocol to kernelbench"),
        (
            ("--kernel", "1_19", "--kernelbench-precision", "fp16"),
            "--kernelbench-precision belongs to KernelBench's protocol",
        ),
        (("--kernel", "1_19", "--perf-trials", "0", "--protocol", "both"), "--perf-trials must be at least 1"),
        (("--run-folder", "nowhere", "--device", "cpu"), "cannot read nowhere"),
        (("--run-folder", ".", "--device", "cpu"), "contains no level_"),
        (("--run-folder", ".", "--problem", "1_19", "--device", "cpu"), "--problem names one problem"),
    ],
)
def test_usage(arguments: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in refused_here(CliRunner().invoke(app, ["evaluate", *arguments]))


def test_unknown_problems_are_reported_before_anything_is_evaluated(tmp_path: Path) -> None:
    for name in ("level_1_problem_19_sample_0_kernel.py", "level_1_problem_99_sample_0_kernel.py"):
        (tmp_path / name).write_text("")
    run = CliRunner().invoke(app, ["evaluate", "--run-folder", str(tmp_path), *QUICK])
    assert "no problem 'level1/1_99'" in refused_here(run)
    assert not (tmp_path / "eval_results.json").exists()


def judged(strict: float | str, other: dict[str, Any], rule: str = "") -> Result:
    found = evaluation(kernel(strict), Config(), strict)
    if rule:
        found = found.model_copy(update={"rejection": Rejection(rule=rule, where="line 3", why="Because.")})
    other_verdict = KernelBenchResult(compiled=True, **other)
    return Result(problem="level1/1_1", workload="tiny", evaluation=found, result=other_verdict)


def test_the_remark_says_who_refuses_and_why() -> None:
    right = {"correctness": True, "runtime": 5.0, "ref_runtime": 10.0}
    assert judged(5.0, right).remark == ""
    assert judged(2.0, right).remark == (
        "5x or 2x: strict compares medians, timed interleaved; kernelbench means, with gradients on"
    )
    rejected = judged("rejected", right, "torch-operator")
    assert rejected.remark == ("strict refuses it (torch-operator), kernelbench accepts it: it looks at results only")
    assert "does not compare dtypes" in judged("wrong_dtype", right).remark
    mismatch = {"metadata": {"correctness_issue": "Output mismatch"}}
    assert "copies no weights" in judged(5.0, mismatch).remark
    assert judged("wrong_value", mismatch).remark == ""
    assert [result.correct for result in (judged(5.0, right), rejected, judged(5.0, mismatch))] == [True, False, False]


@pytest.mark.parametrize(
    ("error", "distributions", "why"),
    [
        (7.9e-5, (), "the error of 7.9e-05 is below its absolute tolerance of 0.0001, where strict allows 5.4e-09 and"),
        (0.5, (), "it allows 0.0001 and 0.0001 of the value, where strict allows 5.4e-09 and 0.0001 of the value"),
        (7.9e-5, ("signs",), "it tries the problem's own inputs only"),
    ],
)
def test_a_tolerance_above_the_outputs_is_named_as_the_reason(
    error: float, distributions: tuple[str, ...], why: str
) -> None:
    """A softmax of 20,000 columns is 5e-5: zeros pass there."""
    right = {"correctness": True, "runtime": 5.0, "ref_runtime": 10.0}
    compared = Correctness(
        seeds=(1,),
        max_abs_error=error,
        max_rel_error=1.0,
        own_errors=(error, 1.0),
        tolerance=1e-4,
        absolute_tolerance=5.4e-9,
        passed=False,
        distributions=distributions,
    )
    found = judged("wrong_value", right)
    assert found.evaluation is not None
    wrong = found.evaluation.model_copy(update={"correctness": compared})
    assert why in found.model_copy(update={"evaluation": wrong, "tolerance": 1e-4}).remark


def test_fast_p_in_one_line() -> None:
    assert describe_fast_p({1: 3.0, 19: None, 23: 0.9, 94: 1.2}) == (
        "fast_p over 4 problems: 0: 0.75, 0.5: 0.75, 0.8: 0.75, 1: 0.50, 1.5: 0.25, 2: 0.25"
    )
