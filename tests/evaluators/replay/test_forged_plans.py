"""What a candidate's process could write into its plan, beside what is in `test_record`, `test_ptx` and `test_tir`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from kernelwright.core.launch_plan import KernelCode, LaunchPlan, LaunchStep, TensorLayout, TorchStep
from kernelwright.evaluators.replay.executor import PlanExecutor, check_references
from kernelwright.evaluators.replay.values import UnplannableCallError, argument
from kernelwright.evaluators.replay.worker import ReplayWorker
from kernelwright.evaluators.workers.handover import Handover
from pydantic import ValidationError

LAYOUT = TensorLayout(shape=(2, 3), strides=(3, 1), dtype="float32")
PTX = KernelCode(name="relu", kind="ptx", text="", entry="relu", parameters=("tensordesc<fp32[16]>", "fp32"))


def plan(*steps: Any, **given: Any) -> LaunchPlan:
    fields = {"inputs": (0,), "layouts": {0: LAYOUT}, "codes": {PTX.digest: PTX}, "outputs": (1,), "returns": "tensor"}
    return LaunchPlan(steps=steps, **{**fields, **given})


def described(**fields: Any) -> dict[str, Any]:
    return {"descriptor": 0, "shape": [2, 3], "strides": [3, 1], "block_shape": [2, 2], **fields}


def test_an_infinite_scalar_is_a_number() -> None:
    check_references(plan(LaunchStep(code=PTX.digest, arguments=(described(), {"float": "-inf"})), outputs=(0,)))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"shape": [3, 3]}, "beyond its tensor"),
        ({"strides": [4, 1]}, "beyond its tensor"),
        ({"shape": [2, "3"]}, "not numbers"),
        ({"strides": [-3, 1]}, "not numbers"),
        ({"block_shape": None}, "not numbers"),
    ],
)
def test_a_descriptor_stays_within_its_tensor(fields: dict[str, Any], says: str) -> None:
    tensors = {0: torch.zeros(2, 3)}
    assert argument(described(), "cpu")(tensors).base is tensors[0]
    with pytest.raises(UnplannableCallError, match=says):
        argument(described(**fields), "cpu")(tensors)


def test_a_plan_cannot_turn_its_callers_tensors(tmp_path: Path) -> None:
    """Otherwise the reference would be timed on tensors with slower strides."""
    turned = TensorLayout(shape=(3, 2), strides=(1, 3), dtype="float32")
    step = TorchStep(operator="aten.t_.default", args=({"tensor": 0},), results=(1,), layouts=(turned,))
    with pytest.raises(UnplannableCallError, match="something else than to compute a tensor"):
        PlanExecutor(plan(step, codes={}), {}, tmp_path, "cpu")


@pytest.mark.parametrize("name", ["../../relu", "/tmp/relu", "re\x1b[2Jlu", "", "a b"])
def test_names_are_names(name: str) -> None:
    for field in ("name", "entry"):
        with pytest.raises(ValidationError):
            KernelCode.model_validate({**PTX.model_dump(), field: name})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "its plan is none"),
        (plan(codes={}, layouts={}).model_dump_json(), "a layout of their own"),
        (plan(codes={}, inputs=(0, {"value": 1}), outputs=(0,)).model_dump_json(), "1 inputs, but 2"),
        (plan(codes={}, outputs=(), inputs=({"value": {"torch": "save"}},)).model_dump_json(), "the argument"),
        (plan(codes={}, constants={1: ""}, layouts={0: LAYOUT, 1: LAYOUT}).model_dump_json(), "without its constants"),
    ],
)
def test_whatever_is_sent_is_a_reason_and_no_failure_of_the_process(
    text: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    worker, path = ReplayWorker("cpu"), tmp_path / "plan.json"
    path.write_text(text)
    reason = worker.load_plan(0, str(path), [], str(tmp_path / "none"))["reason"]
    if reason is None:
        weights = {"names": [], "given": Handover("cpu").give([], tmp_path / "weights", False)}
        inputs = [Handover("cpu").give([torch.zeros(2, 3)], tmp_path / "inputs", False)]
        prepared = worker.prepare(0, [[0, None]], weights, inputs, None, [], graph=False, watch=True)
        reason = prepared["reason"]
    assert reason is not None and says in reason
