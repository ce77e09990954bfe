"""A plan that somebody else wrote: what it may not contain, and what it cannot keep from call to call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kernelwright
import pytest
import torch
from kernelwright.core.launch_plan import KernelCode, LaunchPlan, LaunchStep, TensorLayout, TorchStep
from kernelwright.evaluators.replay.executor import PlanExecutor, loaded_plan
from kernelwright.evaluators.replay.generated_c import PREFIX
from kernelwright.evaluators.replay.values import UnplannableCallError

LAYOUT = TensorLayout(shape=(8,), strides=(1,), dtype="float32")
X, RESULT, KEPT = {"tensor": 0}, {"tensor": 10}, {"tensor": 7}


def step(operator: str, *args: Any, results: tuple[int, ...] = (10,), **named: Any) -> TorchStep:
    return TorchStep(operator=operator, args=args, kwargs=named, results=results, layouts=(LAYOUT,) * len(results))


def plan(*steps: TorchStep | LaunchStep, constants: Mapping[int, str] | None = None, **more: Any) -> LaunchPlan:
    given = {"inputs": (0,), "codes": {}, "outputs": (10,), "returns": "tensor", **more}
    kept = dict(constants or {})
    return LaunchPlan(steps=steps, constants=kept, layouts=dict.fromkeys((0, *kept), LAYOUT), **given)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("aten.manual_seed.default", [7]),
        ("aten.set_grad_enabled.default", [True]),
        ("aten.save.default", [X, "kept"]),
        ("aten.Int.Tensor", [X]),
        ("aten._no_grad_uniform_.default", [X, 0.0, 1.0]),
        ("aten.requires_grad_.default", [X, True]),
        ("aten.set_data.default", [X, X]),
        ("aten.resize_as_.default", [X, X]),
        ("aten.as_strided_.default", [X, [4], [2]]),
        ("aten.resize.default", [X, [64]]),
        ("aten.empty_quantized.default", [[64], X]),
    ],
)
def test_an_operator_computes_tensors_and_nothing_else(name: str, args: list[Any], tmp_path: Path) -> None:
    with pytest.raises(UnplannableCallError, match="the operator"):
        PlanExecutor(plan(step(name, *args)), {}, tmp_path, "cpu")


def test_a_number_stands_for_one_tensor(tmp_path: Path) -> None:
    """Else memory that nobody knows would be left as it is between the calls."""
    for taken in (0, 9):
        steps = step("aten.clone.default", X, results=(9,)), step("aten.clone.default", X, results=(taken,))
        with pytest.raises(UnplannableCallError, match="number that another one has"):
            PlanExecutor(plan(*steps, outputs=(9,)), {}, tmp_path, "cpu")


def test_what_is_written_to_keeps_its_size(tmp_path: Path) -> None:
    large = step("aten.repeat.default", X, [4], results=(9,))
    grown = step("aten.add.out", {"tensor": 9}, {"tensor": 9}, out=KEPT)
    executor = PlanExecutor(plan(large, grown, constants={7: ""}), {7: torch.zeros(8)}, tmp_path, "cpu")
    with pytest.raises(UnplannableCallError, match="resizes what it writes to"):
        executor([torch.ones(8)], {})


def test_a_plan_that_is_none_is_not_replayed(tmp_path: Path) -> None:
    odd = LAYOUT.model_copy(update={"dtype": "hub"})
    for text in (
        "[]",
        "{}",
        plan(constants={7: ""}).model_copy(update={"layouts": {0: LAYOUT, 7: odd}}).model_dump_json(),
    ):
        described = [{"shape": [8], "stored": True}] if "hub" in text else []
        reason = loaded_plan(text, described, tmp_path, tmp_path / "plans", "cpu")
        assert isinstance(reason, str) and ("its plan is none" in reason or "'hub'" in reason)


@pytest.mark.parametrize("name", ["../../x", "/tmp/x", "x\n", "<b>x"])
def test_the_name_of_a_kernel_is_one(name: str) -> None:
    """It becomes the name of a file, and stands in reports."""
    for named in ({"name": name, "entry": "x"}, {"name": "x", "entry": name}):
        with pytest.raises(ValueError, match="pattern"):
            KernelCode(kind="c", text="", parameters=(), **named)


def test_a_library_beside_a_saved_plan_is_not_believed(tmp_path: Path) -> None:
    loop = "for (int32_t i = 0; i < 8; ++i) { Y[i] = X[i] + X[i]; }"
    text = f"int32_t two_kernel(float* X, float* Y) {{\n  {loop}\n  return 0;\n}}\n"
    code = KernelCode(name="two", kind="c", text=text, entry="two_kernel", parameters=("pointer", "pointer"))
    launch = LaunchStep(code=code.digest, arguments=(X, RESULT))
    doubled = plan(step("aten.empty_like.default", X), launch, codes={code.digest: code})
    built = tmp_path / "built"
    built.mkdir()
    assert PlanExecutor(doubled, {}, built, "cpu")([torch.ones(8)], {}).tolist() == [2.0] * 8
    (library,) = built.glob("*.so")
    assert PREFIX.encode() in library.read_bytes()
    saved = tmp_path / "plan"
    saved.mkdir()
    (saved / "plan.json").write_text(doubled.model_dump_json())
    (saved / "constants.json").write_text(json.dumps([]))
    (saved / library.name).write_bytes(b"a library of somebody else")
    assert kernelwright.load_plan(saved)([torch.full((8,), 3.0)], {}).tolist() == [6.0] * 8


def test_the_memory_that_calls_allocate_is_made_before_them_and_spoiled(tmp_path: Path) -> None:
    """A call finds nothing of another one in it, and calls of a batch do not share it."""
    negated = step("aten.neg.default", X, results=(9,))
    executor = PlanExecutor(plan(step("aten.empty_like.default", X), negated), {}, tmp_path, "cpu")
    executor.reserve(2)
    first, second = (executor([torch.ones(8)], {}, place) for place in range(2))
    assert not torch.equal(first, second) and first.data_ptr() != second.data_ptr()
    before = first.view(torch.uint8).clone()
    executor.reserve(2)
    assert not torch.equal(first.view(torch.uint8), before)
    assert executor([torch.ones(8)], {}, 0).data_ptr() == first.data_ptr()
    assert executor([torch.ones(8)], {}).data_ptr() not in (first.data_ptr(), second.data_ptr())


def test_an_allocation_of_other_strides_is_spoiled_too(tmp_path: Path) -> None:
    executor = PlanExecutor(plan(step("aten.empty_permuted.default", [8], [0])), {}, tmp_path, "cpu")
    found = []
    for _ in range(2):
        executor.reserve(1)
        found.append(executor([torch.ones(8)], {}, 0).view(torch.uint8).clone())
    assert not torch.equal(*found)


def test_constants_are_put_back_before_a_batch(tmp_path: Path) -> None:
    counts = step("aten.add_.Tensor", KEPT, X)
    executor = PlanExecutor(plan(counts, constants={7: ""}), {7: torch.zeros(8)}, tmp_path, "cpu")
    assert executor([torch.ones(8)], {}).tolist() == [1.0] * 8
    assert executor([torch.ones(8)], {}).tolist() == [2.0] * 8
    executor.reserve(1)
    assert executor([torch.ones(8)], {}, 0).tolist() == [1.0] * 8
