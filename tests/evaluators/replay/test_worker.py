"""The process that replays: what it is given, what it must not know, and how it begins."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from kernelwright.core import Config, Kernel, TorchProblem
from kernelwright.core.launch_plan import KernelCode, LaunchPlan, LaunchStep, TensorLayout, TorchStep
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.replay import worker as replay_worker
from kernelwright.evaluators.replay.worker import ReplayWorker, serve
from kernelwright.evaluators.workers import tensor_ipc
from kernelwright.evaluators.workers.channel import Channel
from kernelwright.evaluators.workers.client import ForkServer, Worker
from kernelwright.evaluators.workers.handover import Handover

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
    assert {one["op"] for one in told if "op" in one} == set(REPLAYS)
    assert not any(str(seed) in text for seed in drawn if seed > 9999)
    assert "/problems" not in text and "seed" not in text and "get_inputs" not in text


def test_it_may_not_read_what_problems_are_in(evaluator: LocalEvaluator, monkeypatch: pytest.MonkeyPatch) -> None:
    processes, read = evaluator.processes, []
    monkeypatch.setattr(type(processes.containment), "rules", lambda self, reads, writes: read.append([*reads]))
    processes.replay_worker().discard()
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
    assert [one["remembers"] for one in told] == [False, remembers]


def test_what_fails_before_there_is_a_request_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may have had all of a GPU's memory when it began."""
    monkeypatch.chdir(tmp_path)

    def fails(self: ReplayWorker) -> None:
        raise RuntimeError("CUDA out of memory")

    monkeypatch.setattr(ReplayWorker, "warm_up", fails)
    monkeypatch.setattr(replay_worker.Arithmetic, "of", lambda options: replay_worker.Arithmetic())
    ours, theirs = Channel.pair()
    ours.close()
    serve(Channel(theirs.detach()), {"device": "cpu"})


def test_a_spare_that_has_ended_is_not_used(evaluator: LocalEvaluator) -> None:
    processes = evaluator.processes
    spare = processes.replay_worker()
    spare.kill()
    deadline = time.monotonic() + 10
    while spare.runs and time.monotonic() < deadline:
        time.sleep(0.01)
    processes._spare = tuple(processes._languages), spare
    worker = processes.replay_worker()
    assert worker is not spare and worker.call(10, op="release")["ok"]
    worker.discard()
