"""The process that replays: what it is given, what it must not know, and how it begins."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from kernelwright.core import Config, Kernel, TorchProblem
from kernelwright.core.launch_plan import KernelCode, LaunchPlan, LaunchStep, ParallelStep, TensorLayout, TorchStep
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.replay import worker as replay_worker
from kernelwright.evaluators.replay.worker import ReplayWorker, serve
from kernelwright.evaluators.workers import tensor_ipc
from kernelwright.evaluators.workers.channel import Channel, Message
from kernelwright.evaluators.workers.client import Worker
from kernelwright.evaluators.workers.handover import Handover
from kernelwright.evaluators.workers.server_client import ForkServer

LAYOUT = TensorLayout(shape=(4,), strides=(1,), dtype="float32")
REPLAYS = ("load_plan", "prepare", "go", "outputs", "hold_steps")


@pytest.fixture
def evaluator(proving: LocalEvaluator) -> LocalEvaluator:
    return proving


def test_it_has_neither_problem_nor_seeds(
    evaluator: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []
    drawn: set[int] = set()
    really_forked, really_called = ForkServer.fork, Worker.call

    def fork(self: ForkServer, role: str, *args: Any, **options: Any) -> Worker:
        if role == "replay.worker":
            told.append(options)
        return really_forked(self, role, *args, **options)

    def call(self: Worker, seconds: float, **request: Any) -> Any:
        if request["op"] in REPLAYS and "serial" not in request:
            told.append(request)
        elif isinstance(request.get("seed"), int):
            drawn.add(request["seed"])
        return really_called(self, seconds, **request)

    monkeypatch.setattr(ForkServer, "fork", fork)
    monkeypatch.setattr(Worker, "call", call)
    (found,) = evaluator.evaluate(scale_problem, scale_kernel, [Config({"BLOCK": 8})])
    assert found.replay is not None and found.replay.replayed and len(drawn) > 3
    text = json.dumps(told)
    assert {row["op"] for row in told if "op" in row} == set(REPLAYS)
    assert not any(str(seed) in text for seed in drawn if seed > 9999)
    assert "/problems" not in text and "seed" not in text and "get_inputs" not in text


def test_it_may_not_read_what_problems_are_in(evaluator: LocalEvaluator, monkeypatch: pytest.MonkeyPatch) -> None:
    processes, read = evaluator.processes, []
    monkeypatch.setattr(type(processes.servers.containment), "rules", lambda self, reads, writes: read.append([*reads]))
    processes.replay_workers.replay_worker().discard()
    ((inbox,),) = read
    assert inbox.parent.name == "inbox" and inbox.name.startswith("replay")


def test_weights_that_the_reference_writes_to_are_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a kernel could count its calls there."""
    monkeypatch.chdir(tmp_path)
    add = TorchStep(operator="aten.add_.Tensor", args=({"tensor": 1}, {"tensor": 0}), results=(2,), layouts=(LAYOUT,))
    plan = LaunchPlan(
        inputs=(0,), weights={"seen": 1}, layouts={0: LAYOUT, 1: LAYOUT}, codes={}, steps=(add,), outputs=(2,),
        returns="tensor",
    )  # fmt: skip
    path = tmp_path / "plan.json"
    path.write_text(plan.model_dump_json())
    worker = ReplayWorker("cpu")
    assert worker.load_plan(1, str(path), [], str(tmp_path / "none"))["reason"] is None
    weights: Any = {"names": ["seen"], "given": Handover("cpu").give([torch.zeros(4)], tmp_path / "weights", False)}
    inputs = [Handover("cpu").give([torch.ones(4)], tmp_path / "inputs", False)]
    for restored, expected in ((["seen"], [1.0, 1.0]), ([], [2.0, 3.0])):
        for value in expected:
            prepared = worker.prepare(1, [[0, None]], weights, inputs, None, restored, graph=False, watch=True)
            assert prepared["reason"] is None
            weights = None
            assert worker.go()["samples_ms"]
            assert worker._batch.results[0].tolist() == [value] * 4
            written = worker.outputs([0], str(tmp_path / "out"), False, [])["weights"]
            assert written == ["seen"]


@pytest.mark.parametrize(
    ("statements", "remembers"),
    [
        ("C[0] = C[0] + 1.0f; Y[0] = X[0] + C[1];", True),
        ("if (X[0] > 0.0f) { C[1] = X[0]; } Y[0] = C[1];", True),
        ("Y[0] = X[0] * C[0];", False),
    ],
)
def test_it_tells_of_calls_that_leave_something_in_a_constant(
    statements: str, remembers: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as what follows from the weights alone, once for all calls of a batch."""
    monkeypatch.chdir(tmp_path)
    text = f"int32_t k_kernel(float* C, float* X, float* Y) {{ {statements} return 0; }}"
    code = KernelCode(name="k", kind="c", text=text, entry="k_kernel", parameters=("pointer",) * 3)
    made = TorchStep(operator="aten.empty_like.default", args=({"tensor": 0},), results=(2,), layouts=(LAYOUT,))
    launch = LaunchStep(code=code.digest, arguments=({"tensor": 1}, {"tensor": 0}, {"tensor": 2}))
    plan = LaunchPlan(
        inputs=(0,), constants={1: ""}, layouts={0: LAYOUT, 1: LAYOUT}, codes={code.digest: code},
        steps=(made, launch), outputs=(2,), returns="tensor",
    )  # fmt: skip
    path, constants = tmp_path / "plan.json", tmp_path / "constants"
    path.write_text(plan.model_dump_json())
    described = tensor_ipc.write([torch.zeros(4)], constants)
    worker = ReplayWorker("cpu")
    assert worker.load_plan(1, str(path), described, str(constants))["reason"] is None
    inputs = [Handover("cpu").give([torch.ones(4)], tmp_path / "inputs", False)]
    weights: Any = {"names": [], "given": Handover("cpu").give([], tmp_path / "weights", False)}
    told = []
    for _ in range(2):
        told.append(worker.prepare(1, [[0, None]] * 3, weights, inputs, None, [], graph=False, watch=False))
        assert worker.go()["samples_ms"]
    assert [row["remembers"] for row in told] == [False, remembers]


def doubling(folder: Path, body: str = "Y[i] = X[i] + X[i];") -> LaunchPlan:
    """Write a plan of one launch on 4 floats to a folder; return it."""
    text = f"int32_t two_kernel(float* X, float* Y) {{ for (int32_t i = 0; i < 4; ++i) {{ {body} }} return 0; }}"
    code = KernelCode(name="two", kind="c", text=text, entry="two_kernel", parameters=("pointer", "pointer"))
    made = TorchStep(operator="aten.empty_like.default", args=({"tensor": 0},), results=(1,), layouts=(LAYOUT,))
    launch = LaunchStep(code=code.digest, arguments=({"tensor": 0}, {"tensor": 1}))
    plan = LaunchPlan(
        inputs=(0,), weights={"w": 2}, layouts={0: LAYOUT, 2: LAYOUT}, codes={code.digest: code}, steps=(made, launch),
        outputs=(1,), returns="tensor",
    )  # fmt: skip
    (folder / "plan.json").write_text(plan.model_dump_json())
    return plan


def handed(folder: Path) -> dict[str, Any]:
    given = Handover("cpu").give([torch.zeros(4)], folder / "weights", False)
    inputs = [Handover("cpu").give([torch.ones(4)], folder / "inputs", False)]
    return {
        "number": 1, "calls": [[0, None], [0, None]], "weights": {"names": ["w"], "given": given}, "inputs": inputs,
        "factors": None, "restored": [], "graph": False, "watch": False,
    }  # fmt: skip


@pytest.mark.parametrize("beside", ["input 0 of call 1", "tensor 1 of call 0", "w"])
def test_what_is_changed_beside_a_tensor_is_found_after_the_batch(
    beside: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    doubling(tmp_path)
    worker = ReplayWorker("cpu")
    assert worker.load_plan(1, str(tmp_path / "plan.json"), [], "")["reason"] is None
    assert worker.prepare(**handed(tmp_path))["reason"] is None
    made = {
        "input 0 of call 1": worker._batch.inputs[1][0],
        "tensor 1 of call 0": worker._plans[1]._reserved[0][1],
        "w": worker._weights["w"],
    }
    assert worker.go()["samples_ms"]
    assert "outputs" in worker.outputs([1], str(tmp_path / "out"), False, [])
    ctypes.memset(made[beside].data_ptr() + 16, 1, 4)
    (broken,) = worker.outputs([], str(tmp_path / "out"), False, [])["violations"]
    assert broken["rule"] == "out-of-bounds" and broken["where"].endswith(f" bytes behind the end of {beside}")


UNHELD = """
import sys
from kernelwright.evaluators.languages.c_headers import needed_headers
from kernelwright.evaluators.replay import c_source, worker
from kernelwright.evaluators.replay.generated_c import PREFIX
from kernelwright.evaluators.workers.channel import Channel

worker.Arithmetic.of = lambda options: worker.Arithmetic()
if sys.argv[2] == "unheld":
    c_source.held_source = lambda code, given: needed_headers("float") + 'extern "C" ' + code.text.replace(
        "two_kernel", PREFIX + "two_kernel"
    )
worker.serve(Channel(int(sys.argv[1])), {"device": "cpu"})
"""


@pytest.mark.parametrize(
    ("held", "parallel", "body", "where"),
    [
        ("unheld", False, "Y[i + 1024] = X[i];", "4081 bytes behind the end of tensor 1 of call 0"),
        ("unheld", True, "Y[i] = X[i - 200000];", "800000 bytes before input 0 of call 0"),
        ("held", False, "Y[i + (int32_t)X[i] * 9] = 1.0f;", "a check of its generated C"),
    ],
)
def test_a_launch_that_leaves_its_tensors_is_refused(
    held: str, parallel: bool, body: str, where: str, tmp_path: Path
) -> None:
    """Also with C that nobody has written anew, as if that were not bounded."""
    plan = doubling(tmp_path, body)
    if parallel:
        steps = plan.steps[0], ParallelStep(launches=(plan.steps[1],) * 2)
        (tmp_path / "plan.json").write_text(plan.model_copy(update={"steps": steps}).model_dump_json())
    ours, theirs = Channel.pair()
    command = [sys.executable, "-c", UNHELD, str(theirs.fileno()), held]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd=tmp_path)
    theirs.close()
    load = {"op": "load_plan", "number": 1, "plan": str(tmp_path / "plan.json"), "constants": [], "path": ""}
    try:
        for request in (load, {"op": "prepare", **handed(tmp_path)}):
            ours.send({**request, "nonce": "a"})
            assert ours.receive(120)["reason"] is None
        ours.send({"op": "go", "nonce": "b"})
        answer = ours.receive(60)
        assert (answer["ok"], answer["nonce"]) == (True, "b")
        assert answer["violations"][0]["rule"] == "out-of-bounds" and answer["violations"][0]["where"] == where
        assert process.wait(60) == 1
    finally:
        process.kill()
        process.wait()
        ours.close()


def test_what_fails_before_there_is_a_request_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may have had all of a GPU's memory when it began."""
    monkeypatch.chdir(tmp_path)

    def fails(self: ReplayWorker) -> None:
        raise RuntimeError("CUDA out of memory")

    monkeypatch.setattr(ReplayWorker, "_open_device", fails)
    monkeypatch.setattr(replay_worker.Arithmetic, "of", lambda options: replay_worker.Arithmetic())
    ours, theirs = Channel.pair()
    ours.send({"op": "ready", "nonce": "1"}, 10)
    answers: list[Message] = []
    asking = threading.Thread(target=lambda: (answers.append(ours.receive(10)), ours.close()))
    asking.start()
    serve(Channel(theirs.detach()), {"device": "cpu"})
    asking.join(10)
    assert answers[0]["ready"] is False, "it is not used: see `ReplayWorkerPool`"


def test_a_spare_that_has_ended_is_not_used(evaluator: LocalEvaluator) -> None:
    processes = evaluator.processes
    spare = processes.replay_workers.replay_worker()
    os.kill(spare.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while spare.runs and time.monotonic() < deadline:
        time.sleep(0.01)
    processes.replay_workers._spare = tuple(processes.servers.languages), spare
    worker = processes.replay_workers.replay_worker()
    assert worker is not spare and worker.call(10, op="release")["ok"]
    worker.discard()
