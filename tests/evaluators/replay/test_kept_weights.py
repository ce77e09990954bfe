"""What a timed call leaves in weights, or in what was packed of them, is found after its batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from kernelwright.core.launch_plan import LaunchPlan, TensorLayout, TorchStep
from kernelwright.evaluators.replay.worker import ReplayWorker
from kernelwright.evaluators.workers.handover import Handover

LAYOUT = TensorLayout(shape=(4,), strides=(1,), dtype="float32")


def step(operator: str, *numbers: int, result: int) -> TorchStep:
    arguments = tuple({"tensor": number} for number in numbers)
    return TorchStep(operator=operator, args=arguments, results=(result,), layouts=(LAYOUT,))


def writing(what: str) -> LaunchPlan:
    """A plan that adds the largest of zero and its input to a weight, to what it packed of it, or to its own copy."""
    packing = LaunchPlan(
        inputs=(), weights={"w": 0}, layouts={0: LAYOUT}, codes={}, steps=(step("aten.clone.default", 0, result=1),),
        outputs=(1,), returns="tuple",
    )  # fmt: skip
    place = {"weight": 1, "packed": 2, "copy": 4}[what]
    steps = [
        step("aten.relu.default", 0, result=3),
        step("aten.clone.default", 2, result=4),
        step("aten.add_.Tensor", place, 3, result=5),
    ]
    return LaunchPlan(
        inputs=(0,), weights={"w": 1}, packing=packing, packed=(2,), layouts=dict.fromkeys(range(3), LAYOUT), codes={},
        steps=tuple(steps), outputs=(5,), returns="tensor",
    )  # fmt: skip


def broken(folder: Path, plan: LaunchPlan, restored: list[str], timed: bool) -> list[Any]:
    """The rules that two batches break: only the second one's input is such that the call writes something."""
    path = folder / "plan.json"
    path.write_text(plan.model_dump_json())
    worker = ReplayWorker("cpu")
    assert worker.load_plan(1, str(path), [], str(folder / "none"))["reason"] is None
    weights: Any = {"names": ["w"], "given": Handover("cpu").give([torch.zeros(4)], folder / "weights", False)}
    found = []
    for value in (-1.0, 1.0):
        inputs = [Handover("cpu").give([torch.full((4,), value)], folder / "inputs", False)]
        told = worker.prepare(1, [[0, None]], weights, inputs, None, restored, graph=False, watch=False, settle=timed)
        assert told["reason"] is None and worker.go()["samples_ms"]
        violations = worker.outputs([0], str(folder / "out"), False, []).get("violations", [])
        found.append([(item["rule"], item["where"]) for item in violations])
        weights = None
    return found


def packs(step_of_packing: TorchStep) -> LaunchPlan:
    packing = LaunchPlan(
        inputs=(), weights={"w": 0}, layouts={0: LAYOUT}, codes={}, steps=(step_of_packing,), outputs=(1,),
        returns="tuple",
    )  # fmt: skip
    return LaunchPlan(
        inputs=(0,), weights={"w": 1}, packing=packing, packed=(2,), layouts=dict.fromkeys(range(3), LAYOUT), codes={},
        steps=(step("aten.relu.default", 0, result=3),), outputs=(3,), returns="tensor",
    )  # fmt: skip


def test_two_plans_pack_the_same_weights_each_in_its_own_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As finalists of a search do, in one process."""
    monkeypatch.chdir(tmp_path)
    worker, weights = ReplayWorker("cpu"), Handover("cpu").give([torch.ones(4)], tmp_path / "weights", False)
    for number, operator in enumerate(["aten.clone.default", "aten.neg.default"]):
        path = tmp_path / f"plan{number}.json"
        path.write_text(packs(step(operator, 0, result=1)).model_dump_json())
        assert worker.load_plan(number, str(path), [], str(tmp_path / "none"))["reason"] is None
    given: Any = {"names": ["w"], "given": weights}
    for number in (0, 1, 0):
        inputs = [Handover("cpu").give([torch.ones(4)], tmp_path / "inputs", False)]
        prepared = worker.prepare(number, [[0, None]], given, inputs, None, [], graph=False, watch=False, settle=True)
        assert prepared["reason"] is None and worker.go()["samples_ms"]
        assert "violations" not in worker.outputs([0], str(tmp_path / "out"), False, [])
        given = None


@pytest.mark.parametrize(
    ("what", "restored", "second"),
    [
        ("weight", [], [("weights-changed", "w")]),
        ("packed", [], [("weights-changed", "what prepare made (2)")]),
        ("packed", ["w"], [("weights-changed", "what prepare made (2)")]),
        ("weight", ["w"], []),
        ("copy", [], []),
    ],
)
def test_a_call_that_writes_now_and_then(
    what: str, restored: list[str], second: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for weights that the reference writes to: those are put back."""
    monkeypatch.chdir(tmp_path)
    assert broken(tmp_path, writing(what), restored, timed=True) == [[], second]


def test_only_timed_calls_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user may call a saved plan whose weights are meant to change."""
    monkeypatch.chdir(tmp_path)
    assert broken(tmp_path, writing("weight"), [], timed=False) == [[], []]
