"""What tools return, from verdicts that are made up."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from kernelwright.commands._list_slow import SlowKernel
from kernelwright.commands.evaluate import AGENTS
from kernelwright.commands.evaluate import Result as Verdict
from kernelwright.commands.list_slow import Result as Listing
from kernelwright.commands.optimize import Result as Optimized
from kernelwright.commands.profile import Result as Profiled
from kernelwright.core import Budget, Config, Evaluation, PythonKernel, Rejection, SecondWorkload, Status
from kernelwright.core.causes.bottleneck import find_bottleneck
from kernelwright.mcp_server.command_tools import reply_model
from kernelwright.mcp_server.messages import in_words_of_tools
from kernelwright.mcp_server.offered import CODE, argument_names
from kernelwright.mcp_server.worker import reply
from kernelwright.runtime.command import find_command, find_commands
from kernelwright.runtime.jobs import Job
from kernelwright.runtime.options.option import details_of
from kernelwright.runtime.reading import explain
from kernelwright.runtime.result import Result

from ..agent.made_up import listed, run
from ..conftest import SCALE_KERNEL
from ..fakes import PROBLEM, PROFILE, evaluation, kernel
from ..runtime.tunings import OTHER, OWN, timed, tuned

KERNEL = PythonKernel.parse(SCALE_KERNEL, "scale")
JOB = Job(kernel(5.0), PROBLEM, "cpu", "k.py")


def verdict(evaluation: Evaluation) -> Verdict:
    return Verdict(problem="level1/1_1", workload="tiny", kernel=kernel(5.0), evaluation=evaluation)


def reply_of(result: Result, run: str = "", root: str = "/") -> dict[str, Any]:
    """What a tool returns of a result, which its schema takes."""
    found = reply(result, run, root)
    model = reply_model(type(result), bool(run))
    return model.model_validate(found).model_dump(mode="json")


def test_a_correct_kernel() -> None:
    found = reply_of(verdict(evaluation(kernel(5.0), Config(), 5.0)))
    assert (found["problem"], found["workload"], found["status"]) == ("level1/1_1", "tiny", "ok")
    assert (found["latency_ms"], found["reference_ms"], found["speedup"]) == (5.0, 10.0, 2.0)
    assert found["warnings"] == [] and "profile" in found["next"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"contention": 0.7}, "other processes used 0.7 cores"),
        ({"second_workload": SecondWorkload(sizes={"n": 7}, status=Status.WRONG_VALUE)}, "wrong_value at n=7"),
    ],
)
def test_what_is_doubtful_is_a_warning(change: dict[str, object], says: str) -> None:
    (warning,) = reply_of(verdict(evaluation(kernel(5.0), Config(), 5.0).model_copy(update=change)))["warnings"]
    assert says in warning


def test_a_rule_that_was_broken() -> None:
    rule = Rejection(rule="torch-operator", where="line 3: torch.mm(x, w)", why="compute it in the kernel.")
    failed = verdict(evaluation(kernel(5.0), Config(), "rejected").model_copy(update={"rejection": rule}))
    found = reply_of(failed)
    assert (found["status"], found["rejection"], found["latency_ms"]) == ("rejected", rule.model_dump(), None)
    assert "explain_error" in found["next"] and failed.failed_kernel is not None


def test_options_are_named_as_arguments() -> None:
    names = argument_names(find_command("evaluate"))
    assert "workload" in names and names.isdisjoint(("allow_torch", "device", "results", "sandbox"))
    rule = Rejection(rule="torch-operator", where="line 3", why="allow it with --allow-torch all, --workload")
    failed = verdict(evaluation(kernel(5.0), Config(), "rejected").model_copy(update={"rejection": rule}))
    assert reply(failed, "", "/", names)["rejection"]["why"] == "allow it with --allow-torch all, `workload`"
    said = "iree-opt --inline; `kernelwright list-slow` and `kernelwright docs kernels --kernel` say more, `--kernel F`"
    expected = "iree-opt --inline; `list_slow` and `kernelwright docs kernels --kernel` say more, `kernel F`"
    assert in_words_of_tools(said, names) == expected


def test_tools_take_what_commands_offer_to_agents() -> None:
    assert argument_names(find_command("evaluate")) == {*AGENTS, "seconds"}
    for command in find_commands():
        if command.declared.agents:
            fields = {field.name: details_of(field) for field in dataclasses.fields(command.options)}
            trusted = {name for name, details in fields.items() if details.trusted}
            assert not argument_names(command) & (trusted - {*CODE}), command.name


def test_a_failure_is_explained() -> None:
    failed = evaluation(KERNEL, Config(), "runtime_error")
    found = explain("k.py", KERNEL, failed)
    assert found.text.startswith("runtime_error: as told") and found.guide == "tilelang_cpu"
    assert "Kernel file" in found.sections and "fix what the exception names" in found.next


@pytest.mark.parametrize(("latency", "next_step"), [(0.104, "stop"), (5.0, "change one thing against")])
def test_a_profile(latency: float, next_step: str) -> None:
    measured = evaluation(kernel(latency), Config(), latency)
    causes = find_bottleneck(PROFILE, latency, cores_used=1.0)
    found = reply_of(Profiled(job=JOB, evaluation=measured, profile=PROFILE, bottleneck=causes))
    assert found["floor_ms"] == 0.1 and found["times_floor"] == pytest.approx(latency / 0.1)
    assert found["profile"]["ceilings"]["copy_gb_s"] == 10
    assert found["bottleneck"]["evidence"]
    assert found["next"].startswith(next_step)


def test_a_profile_of_a_kernel_that_fails() -> None:
    failed = evaluation(kernel(1.0), Config(), "crashed")
    found = reply_of(Profiled(job=JOB, evaluation=failed, profile=None, bottleneck=None))
    assert (found["status"], found["floor_ms"], found["bottleneck"]) == ("crashed", None, None)


def test_a_search_that_found_a_faster_config(tmp_path: Path) -> None:
    finals = (timed(OTHER, 2.0), timed(Config(), 4.0))
    found = reply_of(tuned(tmp_path, *finals), "tune-k-1", str(tmp_path))
    assert (found["run"], found["best"]["config"], found["times_as_fast"]) == ("tune-k-1", {"BLOCK": 4}, 2.0)
    assert (found["start"]["latency_ms"], found["best"]["latency_ms"]) == (4.0, 2.0)
    assert (found["space"]["size"], found["trials"]) == (2, 1)
    assert (found["kernel"], found["journal"]) == ("1_999_tuned_2.000x.py", "journal.jsonl")
    assert "take over the kernel's file" in found["next"]


def test_a_search_that_found_none(tmp_path: Path) -> None:
    own = reply_of(tuned(tmp_path, timed(OWN, 4.0), timed(Config(), 4.0)), "r")
    assert own["kernel"] is None and "keep the constants" in own["next"]
    failed = tuned(tmp_path, trials=(evaluation(KERNEL, OTHER, "compile_error"),))
    nothing = reply_of(failed, "r")
    assert (nothing["best"], nothing["failed"], nothing["statuses"]) == (None, 1, {"compile_error": 1})
    assert failed.failed_kernel is not None and "evaluate the unmodified kernel" in nothing["next"]


def test_a_run(tmp_path: Path) -> None:
    outcome = run(tmp_path, kernel(20.0), listed(kernel(8.0), kernel("wrong_value"), kernel(4.0)))
    result = Optimized(
        job=JOB,
        outcome=outcome,
        kernel=tmp_path / "fast.py",
        history=tmp_path / "h.json",
        journal=tmp_path / "journal.jsonl",
        target=1.5,
        model="rules",
        spent=Budget(),
    )
    found = reply_of(result, "optimize-k-1", str(tmp_path))
    assert (found["run"], found["start"]["latency_ms"], found["best"]["latency_ms"]) == ("optimize-k-1", 20.0, 4.0)
    assert (found["gain"], found["best"]["speedup"], found["kernel"]) == (5.0, 2.5, "fast.py")
    assert found["verified"] and found["faster"] and found["turns"] >= 3
    assert result.to_json()["gain"] == 5.0 and "kind" not in result.to_json()
    assert "stop at the roofline" in found["next"]
    (tmp_path / "same").mkdir()
    nothing = run(tmp_path / "same", kernel(20.0), listed(kernel(30.0)))
    same = reply_of(result.model_copy(update={"outcome": nothing, "kernel": None}), "r")
    assert same["kernel"] is None and not same["faster"] and "no rule made it faster" in same["next"]


def test_slow_kernels() -> None:
    row = SlowKernel(0.5, "DISTURBED", "/root/mine.py", 2.0, 1.0, "1_P", "tiny", "test", 0.9, None, "fp32")
    listing = Listing(slow=(row,), measured=3, failed=("x: wrong",), skipped=(), disturbed=(row,))
    found = reply_of(listing, root="/root")
    assert (found["slow"][0]["kernel"], found["slow"][0]["contention"], found["measured"]) == ("mine.py", 0.9, 3)
    assert found["failed"] == ["x: wrong"] and "profile" in found["next"]
    assert "other processes used 0.9 cores" in found["warnings"][0]
