"""compute-sanitizer on a replayed plan: a program in its place makes the call and writes a recorded report."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kernelwright.core import Config, Kernel, PythonKernel, Status, TorchProblem
from kernelwright.core.launch_plan import KernelCode
from kernelwright.corpus.functions.translation import translate
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.pipeline import sanitizer
from kernelwright.evaluators.pipeline.sanitizer import (
    MOST_S,
    Sanitized,
    Sanitizer,
    device_names,
    tool_command,
)
from kernelwright.evaluators.sandbox import bubblewrap, landlock
from kernelwright.evaluators.sandbox.containment import contain
from kernelwright.evaluators.sandbox.places import Places
from kernelwright.evaluators.settings import Sandbox, Settings
from kernelwright.evaluators.workers.server_client import import_path
from kernelwright.runtime.result import sanitizer_line

from ...conftest import PROVING
from .recorded_sanitizer import BEHIND, NOTHING, WATCHING, Bench


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the tool is looked for."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


@pytest.fixture
def watching(proving: LocalEvaluator, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalEvaluator]:
    """Uses the processes that other tests use, with a sanitizer of its own."""
    monkeypatch.setattr(proving.processes, "sanitizer", proving.processes.sanitizer)  # put back at the end
    with proving.beside(WATCHING) as evaluator:
        yield evaluator


@pytest.fixture
def bench(tools: Path, watching: LocalEvaluator) -> Bench:
    return Bench(tools, watching)


def test_all_tools_make_the_call_and_find_nothing(
    bench: Bench, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    bench.tool(calls=True)
    found = bench.found(scale_problem, scale_kernel)
    assert (found.status, found.sanitizer) == (Status.OK, NOTHING), found.message
    assert found.model_dump()["sanitizer"] == found.metrics().to_json()["sanitizer"] == NOTHING
    assert sanitizer_line(found) is None
    assert sanitizer_line(found, all_of_it=True) == "compute-sanitizer: memcheck, initcheck, racecheck clean"
    assert [run[0] for run in bench.runs()] == [*NOTHING]
    assert "sanitizer" in found.stages
    for tool, options, command, request in bench.runs():
        assert command[-2].endswith("evaluators.replay.sanitized_call")
        # Torch's kernels are watched by initcheck alone, where their writes count.
        assert any(option.startswith("--kernel-name=kernel_name=") for option in options) == (tool != "initcheck")
        assert request["rules"] is None and request["device"] == "cpu"
        assert request["weights"]["names"] == ["weight"]
        assert [value["dtype"] for value in request["inputs"]["values"]] == ["float32"]
        assert not Path(request["plan"]).exists() and not Path(request["folder"]).exists(), "its files are removed"


def test_the_plan_of_each_set_of_integers_is_looked_at(bench: Bench) -> None:
    bench.tool()
    folder = Path(__file__).parents[2] / "exploits" / "functions"
    names = (f"{folder / 'honest_one_number.py'}::{name}" for name in ("function", "reference", "inputs"))
    function = translate(*names)
    found = bench.found(function.problem, function.kernel)
    assert (found.status, found.sanitizer) == (Status.OK, NOTHING), found.message
    asked = [run[0] for run in bench.runs()]
    assert len(asked) > len(NOTHING), "one number differs from plan to plan"
    assert asked == [*NOTHING] * (len(asked) // len(NOTHING))


class Plans:
    """Launch plans in the place of the process that replays them; each is its own identity."""

    def __init__(self, count: int) -> None:
        self.checked: Any = SimpleNamespace(
            replayed=True, weights=1, plans=[SimpleNamespace(number=number) for number in range(count)]
        )

    def recorded(self, number: int) -> SimpleNamespace:
        return SimpleNamespace(plan=number)

    def holding(self, *_: object) -> AbstractContextManager[None]:
        return nullcontext()

    def release(self) -> None:
        """There is no memory to free."""


def test_each_plan_has_its_own_time_and_those_that_are_not_finished_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []
    now = [0.0]

    def run(watched: Sanitizer, tool: str, client: object, recorded: Any, seed: int, seconds: float) -> Sanitized:
        given.append(seconds)
        now[0] += 0.75 * MOST_S
        return Sanitized({**NOTHING, **({"racecheck": "not finished: late"} if recorded.plan in (1, 3) else {})})

    monkeypatch.setattr(Sanitizer, "_run", run)
    monkeypatch.setattr(sanitizer, "installed", lambda: "compute-sanitizer")
    monkeypatch.setattr(sanitizer, "_identity", str)
    monkeypatch.setattr(sanitizer, "time", SimpleNamespace(monotonic=lambda: now[0]))
    watching, plans = Sanitizer(lambda *_: nullcontext(), PROVING.limits), Plans(4)  # type: ignore[arg-type,return-value]
    found = watching.look(None, plans, plans.checked, "kernel")  # type: ignore[arg-type]
    assert found.tools == {**NOTHING, "racecheck": "not finished: late (launch plan 2, 4 of 4)"}
    assert given == [MOST_S] * 4
    monkeypatch.setattr(sanitizer, "_identity", lambda plan: f"{plan} at other sizes")
    watching.look(None, plans, plans.checked, "kernel")  # type: ignore[arg-type]
    assert given[4:] == [0.25 * MOST_S] * 4, "all sizes share a plan's time"


@pytest.mark.parametrize(
    ("tool", "report", "rule"),
    [
        ("memcheck", BEHIND, "out-of-bounds"),
        (
            "initcheck",
            BEHIND.replace("Invalid __global__ write", "Uninitialized __global__ memory read"),
            "uninitialized-read",
        ),
        (
            "racecheck",
            "========= Error: Race reported between Write access at KERNEL+0x90 in kernel.cu:41\n"
            "=========     and Read access at KERNEL+0x100 in kernel.cu:51 [508 hazards]\n"
            "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n",
            "shared-memory-race",
        ),
    ],
)
def test_what_a_tool_finds_rejects_the_kernel(
    bench: Bench, scale_problem: TorchProblem, scale_kernel: Kernel, tool: str, report: str, rule: str
) -> None:
    bench.tool(**{tool: report.replace("KERNEL", "scale_kernel")})
    found = bench.found(scale_problem, scale_kernel)
    assert found.status is Status.REJECTED and found.rejection is not None
    assert (found.rejection.rule, found.rejection.where) == (rule, "scale_kernel")
    assert f"compute-sanitizer's {tool}: " in found.message
    assert found.speedup is None


def test_the_next_best_wins_where_the_fastest_is_rejected(
    bench: Bench, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    other = PythonKernel.parse(scale_kernel.source.replace("def scale(", "def slower("))
    bench.tool(memcheck=BEHIND.replace("KERNEL", "slower_kernel"))
    for kernels in ([scale_kernel, other], [other, scale_kernel]):
        found = dict(
            zip([kernel.digest for kernel in kernels], bench.evaluator.contest(scale_problem, kernels), strict=True)
        )
        judged = {digest: evaluation.sanitizer for digest, evaluation in found.items() if evaluation.sanitizer}
        statuses = found[scale_kernel.digest].status, found[other.digest].status
        # Whichever is the faster is looked at, and the other one only where that is rejected.
        assert statuses[0] is Status.OK
        assert statuses[1] is Status.REJECTED or judged == {scale_kernel.digest: NOTHING}
        assert statuses[1] is Status.OK or judged == {scale_kernel.digest: NOTHING}


def test_the_fastest_of_several_configs_is_looked_at(
    bench: Bench, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    bench.tool()
    configs = [Config(), Config({"BLOCK": 4})]
    found = bench.evaluator.compare(scale_problem, scale_kernel, configs)
    fastest = min(found, key=lambda evaluation: evaluation.latency_ms or math.inf)
    assert [evaluation.sanitizer for evaluation in found if evaluation is not fastest] == [
        {}
    ] and fastest.sanitizer == NOTHING
    bench.forget()
    bench.tool(memcheck=BEHIND.replace("KERNEL", "scale_kernel"))
    found = bench.evaluator.compare(scale_problem, scale_kernel, configs)
    assert [evaluation.status for evaluation in found] == [Status.REJECTED] * 2, "one after the other"


def test_a_plan_is_looked_at_once(bench: Bench, scale_problem: TorchProblem, scale_kernel: Kernel) -> None:
    bench.tool()
    for _ in range(2):
        assert bench.found(scale_problem, scale_kernel).sanitizer == NOTHING
    assert len(bench.runs()) == 3


def test_without_the_tool_the_result_says_so_and_is_otherwise_the_same(
    bench: Bench, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    found = bench.found(scale_problem, scale_kernel)
    assert found.status is Status.OK
    told = "compute-sanitizer: memcheck, initcheck, racecheck not run: compute-sanitizer is not installed"
    assert sanitizer_line(found) == told


def test_a_device_that_the_tool_refuses(bench: Bench, scale_problem: TorchProblem, scale_kernel: Kernel) -> None:
    bench.tool(memcheck="refused")
    found = bench.found(scale_problem, scale_kernel)
    assert found.status is Status.OK
    told = "memcheck, initcheck, racecheck not run: compute-sanitizer does not support this device"
    assert sanitizer_line(found) == f"compute-sanitizer: {told}"
    assert len(bench.runs()) == 1, "the others are not tried"


def test_a_tool_that_does_not_end_in_time_is_not_clean(
    tools: Path, watching: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    bench = Bench(tools, watching, most_s=8.0)
    bench.tool(initcheck="hangs")
    found = bench.found(scale_problem, scale_kernel)
    assert found.status is Status.OK
    assert found.sanitizer["memcheck"] == "clean"
    assert all(found.sanitizer[tool].startswith("not finished: ") for tool in ("initcheck", "racecheck"))
    assert [run[0] for run in bench.runs()] == ["memcheck", "initcheck"]
    left = Path(f"{bench.noted}.pid").read_text().strip()
    state = Path("/proc", left, "stat")
    assert not state.exists() or state.read_text().split()[2] == "Z", "what it started is ended, too"


def test_a_call_that_is_not_made_is_not_clean(
    bench: Bench, scale_problem: TorchProblem, scale_kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.tool(calls=True)
    monkeypatch.setattr("kernelwright.evaluators.pipeline.sanitizer.MEMORY", 0.01)
    found = bench.found(scale_problem, scale_kernel)
    assert found.status is Status.OK
    assert all(said.startswith("not finished: ") for said in found.sanitizer.values()), found.sanitizer


@pytest.mark.parametrize("sandbox", [Sandbox.LANDLOCK, Sandbox.BWRAP])
def test_the_call_is_confined(
    tmp_path: Path, tools: Path, scale_problem: TorchProblem, scale_kernel: Kernel, sandbox: Sandbox
) -> None:
    if sandbox is Sandbox.LANDLOCK and not landlock.abi():
        pytest.skip("this kernel has no Landlock")
    if sandbox is Sandbox.BWRAP and (why := bubblewrap.obstacle(Places.of_this_process())) is not None:
        pytest.skip(why)
    bench = Bench(tools, LocalEvaluator("cpu", replace(WATCHING, sandbox=sandbox)))
    bench.noted = tmp_path / "notes" / "noted.jsonl"  # bubblewrap hides it
    bench.noted.parent.mkdir()
    with bench.evaluator:
        bench.tool(calls=True)
        found = bench.found(scale_problem, scale_kernel)
    assert (found.status, found.sanitizer) == (Status.OK, NOTHING), found.sanitizer
    if sandbox is Sandbox.LANDLOCK:
        assert all(request["rules"]["files"] and request["rules"]["streams"] for *_, request in bench.runs())


def test_the_process_that_makes_the_call_gives_up_what_it_may_not_read(tmp_path: Path) -> None:
    if not landlock.abi():
        pytest.skip("this kernel has no Landlock")
    folder, hidden, packages = tmp_path / "own", tmp_path / "plan.json", tmp_path / "packages"
    folder.mkdir()
    hidden.write_text("{}")
    packages.mkdir()
    language = packages / "a_language.py"
    language.write_text("open('imported', 'w').close()")
    rules = contain(Sandbox.LANDLOCK, "cpu").rules([folder, language], [folder])
    request = {"device": "cpu", "languages": ["a_language"], "memory_gib": 8, "file_gib": 1, "folder": str(folder)}
    request |= {"rules": rules, "plan": str(hidden), "path": str(hidden), "ended": str(folder / "ended")}
    (folder / "request").write_text(json.dumps(request))
    command = [sys.executable, "-P", "-m", "kernelwright.evaluators.replay.sanitized_call", str(folder / "request")]
    found = [*filter(None, [os.environ.get("PYTHONPATH")]), *import_path().values(), str(packages)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(found)}
    subprocess.run(command, check=True, timeout=120, env=environment)
    assert json.loads((folder / "ended").read_text())["reason"].startswith("PermissionError")
    assert (folder / "imported").exists(), "packages of folders that are not readable as a whole are found"


def test_it_is_asked_only_where_settings_say_so(
    bench: Bench, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    bench.tool()
    assert not Settings().sanitize and not replace(Settings(), sanitize=True).quick().sanitize
    with bench.evaluator.beside(replace(bench.evaluator.settings, sanitize=False)) as other:
        (found,) = other.evaluate(scale_problem, scale_kernel, [Config()])
    assert found.status is Status.OK and not found.sanitizer and not bench.runs()
    assert "sanitizer" not in found.model_dump()


def test_options_of_the_tool() -> None:
    command = tool_command("compute-sanitizer", "memcheck", Path("log"), ["one", "two"])
    assert command[-2:] == ["--kernel-name=kernel_name=one", "--kernel-name=kernel_name=two"]
    assert "--report-api-errors" not in tool_command("compute-sanitizer", "racecheck", Path("log"), ["one"])


def lowered(parts: int) -> KernelCode:
    """The code of a TileLang function for a GPU, as a candidate's process records it, with one or more kernels."""
    import tilelang.language as T  # noqa: N812
    from tilelang import tvm
    from tilelang.backend.module import create_backend_context
    from tilelang.engine.lower import lower_to_host_device_ir

    @T.prim_func
    def relu(X: T.Tensor((256,), "float32"), Y: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=256):
            for i in T.Parallel(256):
                Y[i] = T.max(X[i], 0.0)
        if parts > 1:
            with T.Kernel(1, threads=256):
                for i in T.Parallel(256):
                    Y[i] = Y[i] * 2.0

    target = {"kind": "cuda", "arch": "sm_90a"}
    with tvm.transform.PassContext(opt_level=3), tvm.target.Target(target):
        host, device, *_ = lower_to_host_device_ir(relu, create_backend_context(target, None, "auto"))
    assert len(device.functions) == parts
    text = json.dumps({"host": tvm.ir.save_json(host), "device": tvm.ir.save_json(device)})
    return KernelCode(name="relu", kind="tir", text=text, entry="relu", parameters=("pointer", "pointer"))


def test_kernels_are_watched_under_their_names_on_the_device() -> None:
    assert device_names(lowered(1)) == ["relu_kernel"]
    assert device_names(lowered(2)) == ["relu_kernel", "relu_kernel_1"]
    ptx = KernelCode(name="relu", kind="ptx", text=".entry relu_kernel()", entry="relu", parameters=())
    assert device_names(ptx) == ["relu"], "the entry of a PTX is what is launched"
