"""Weights that a kernel packs once become a plan of their own, which runs for each new set of weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import kernelwright
import pytest
import torch
from kernelwright.core.launch_plan import LaunchPlan
from kernelwright.evaluators.replay.executor import PlanExecutor, check_references, loaded_plan
from kernelwright.evaluators.replay.record import Recorder
from kernelwright.evaluators.replay.saved import save_plan
from kernelwright.evaluators.replay.values import UnplannableCallError
from kernelwright.evaluators.workers.modules import load_weights, weights_of
from kernelwright.evaluators.workers.tensor_ipc import write
from torch import nn

Body = Callable[[Any], None]


class Packed(nn.Module):
    """A product with weights that `body` packs, in `prepare` or in a hook."""

    def __init__(self, body: Body, hook: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3))
        self.buffer = torch.empty(3, 4)
        self.table = torch.arange(3.0)[:, None]
        self.body = body
        if hook:
            self.register_load_state_dict_post_hook(lambda module, keys: body(module))
        else:
            self.prepare = lambda: body(self)

    def forward(self, x: Any) -> Any:
        return torch.mm(x, self.packed)


def transposed(model: Any) -> None:
    model.packed = model.weight.t().contiguous()


def into_a_buffer(model: Any) -> None:
    model.buffer.copy_(model.weight.t())
    model.packed = model.buffer


def a_part(model: Any) -> None:
    model.packed = torch.cat([model.weight, model.weight]).t()[:, 2:]


def with_a_table(model: Any) -> None:
    model.packed = model.weight.t() * model.table


def a_view(model: Any) -> None:
    model.packed = model.weight.t()


def through_integers(model: Any) -> None:
    scale = model.weight.abs().amax(dim=1) / 127
    model.packed = ((model.weight / scale[:, None]).round().to(torch.int8).float() * scale[:, None]).t()


BODIES = [transposed, into_a_buffer, a_part, with_a_table, a_view, through_integers]


def recorded(model: Any) -> tuple[LaunchPlan, Recorder]:
    """The plan of a call with the weights that the model was made with."""
    packing, state = Recorder(), nn.Module.state_dict(model)
    fresh = Packed(model.body, hook="prepare" not in vars(model))
    packing.record_packing(fresh, lambda: load_weights(fresh, state), state)
    before, x = Recorder(packing), torch.randn(2, 3)
    first = before.record(fresh, [x])
    recorder = Recorder(packing, before)
    plan = recorder.record(fresh, [x])
    assert first.difference(plan) is None
    return plan, recorder


def executed(model: Any, folder: Path) -> PlanExecutor:
    """What executes the plan, with the constants that it would be handed over with."""
    plan, recorder = recorded(model)
    constants = folder / "out.bin"
    described = write([*recorder.constants.values(), *recorder.packing_constants], constants)
    executor = loaded_plan(plan.model_dump_json(), described, constants, folder / "plans", "cpu")
    assert isinstance(executor, PlanExecutor), executor
    return executor


@pytest.mark.parametrize("hook", [False, True])
@pytest.mark.parametrize("body", BODIES)
def test_packing_runs_for_each_new_set_of_weights(body: Body, hook: bool, tmp_path: Path) -> None:
    executor = executed(Packed(body, hook), tmp_path)
    assert (executor.packing is None) == (body is a_view)
    for _ in range(2):
        model, x = Packed(body, hook), torch.randn(2, 3)
        load_weights(model)
        executor.pack(weights_of(model))
        assert torch.equal(executor([x], weights_of(model)), model(x))


def test_a_saved_plan_packs_the_weights_of_each_call(tmp_path: Path) -> None:
    plan, recorder = recorded(Packed(with_a_table))
    constants = tmp_path / "out.bin"
    save_plan(plan, write([*recorder.packing_constants], constants), constants, tmp_path)
    with kernelwright.load_plan(tmp_path) as loaded:
        for _ in range(2):
            model, x = Packed(with_a_table), torch.randn(2, 3)
            load_weights(model)
            assert torch.equal(loaded([x], dict(weights_of(model))), model(x).detach())


def test_two_recordings_with_other_weights_are_equal() -> None:
    first, second = (recorded(Packed(with_a_table))[0] for _ in range(2))
    assert first.packing is not None and first.difference(second) is None
    other = recorded(Packed(transposed))[0]
    assert "packs the weights" in str(first.difference(other))


def test_scratch_memory_from_prepare_is_no_weight() -> None:
    def allocates(model: Any) -> None:
        model.packed = torch.empty(3, 4)

    plan, recorder = recorded(Packed(allocates))
    assert plan.packing is None and len(recorder.constants) == 1


def test_values_that_python_reads_cannot_be_packed() -> None:
    def reads(model: Any) -> None:
        model.packed = model.weight.t() * model.weight.sum().item()

    with pytest.raises(UnplannableCallError, match=r"where it packs its weights, .*reads values"):
        recorded(Packed(reads))


def test_weights_are_not_packed_in_place(tmp_path: Path) -> None:
    def folds(model: Any) -> None:
        model.weight.mul_(2)
        model.packed = model.weight.t().contiguous()

    model = Packed(folds)
    with pytest.raises(UnplannableCallError, match="writes to weight; it must make tensors"):
        executed(model, tmp_path).pack(weights_of(model))


def forged(plan: LaunchPlan, **changes: Any) -> LaunchPlan:
    assert plan.packing is not None
    return plan.model_copy(update={"packing": plan.packing.model_copy(update=changes)})


def test_packing_has_weights_alone_and_makes_what_the_call_uses() -> None:
    plan, _ = recorded(Packed(transposed))
    assert plan.packing is not None
    for wrong in (
        forged(plan, inputs=({"value": 1},)),
        forged(plan, packing=plan.packing),
        forged(plan, outputs=()),
        plan.model_copy(update={"packing": None}),
        plan.model_copy(update={"packed": ()}),
    ):
        with pytest.raises(UnplannableCallError):
            check_references(wrong)


def test_packing_that_makes_another_tensor_than_it_says_is_refused(tmp_path: Path) -> None:
    plan, _ = recorded(Packed(transposed))
    (number,) = plan.packed
    larger = plan.layouts[number].model_copy(update={"shape": (4, 4), "strides": (4, 1)})
    executor = loaded_plan(
        plan.model_copy(update={"layouts": plan.layouts | {number: larger}}).model_dump_json(),
        [],
        tmp_path,
        tmp_path / "plans",
        "cpu",
    )
    assert isinstance(executor, PlanExecutor)
    with pytest.raises(UnplannableCallError, match="makes another tensor"):
        executor.pack(weights_of(Packed(transposed)))
