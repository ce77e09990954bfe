"""A call becomes a plan, or a reason why not; a plan computes on other inputs and weights what the call would."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
from kernelwright.core.launch_plan import KernelCode, LaunchPlan, LaunchStep, ParallelStep, TensorLayout, TorchStep
from kernelwright.evaluators.languages.tilelang import _in_order
from kernelwright.evaluators.replay.executor import PlanExecutor, check_references
from kernelwright.evaluators.replay.operators import kind_and_family
from kernelwright.evaluators.replay.record import Recorder
from kernelwright.evaluators.replay.values import UnplannableCallError, digest_of
from kernelwright.evaluators.workers.modules import weights_of
from torch import nn

FLASH = "aten._scaled_dot_product_flash_attention.default"


class Model(nn.Module):
    """A layer with a weight, a buffer and a table that is neither."""

    def __init__(self, body: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))
        self.register_buffer("shift", torch.randn(4))
        self.table = torch.arange(4.0)
        self.body = body

    def forward(self, x: Any) -> Any:
        return self.body(self, x)


def in_place(model: Any, x: Any) -> Any:
    y = torch.zeros_like(x)
    y[:, 1:].copy_(x[:, 1:])
    return y.mul_(2)


BODIES: dict[str, Callable[[Any, Any], Any]] = {
    "arithmetic": lambda model, x: x * model.weight + model.shift,
    "views": lambda model, x: x.t().contiguous().view(-1)[3:].unsqueeze(0),
    "in place": in_place,
    "a table": lambda model, x: x + model.table,
    "behind autograd": lambda model, x: x * model.weight.data[1:3].repeat(2),
    "axes in place": lambda model, x: (x + 1).t_().unsqueeze_(0).squeeze_(0).transpose_(0, 1).mul_(model.weight),
    "several": lambda model, x: (x + 1, x.sum(dim=1)),
    "a list": lambda model, x: [x - 1],
    "split": lambda model, x: torch.cat([part * 2 for part in x.split(2, dim=1)], dim=1),
    "types": lambda model, x: x.to(torch.float64).clamp(min=float("-inf"), max=0.5).float(),
}


def planned(body: Callable[[Any, Any], Any]) -> tuple[LaunchPlan, dict[int, Any]]:
    recorder = Recorder()
    plan = recorder.record(Model(body), [torch.randn(3, 4)])
    return LaunchPlan.model_validate_json(plan.model_dump_json()), recorder.constants


def flash(dropout: float) -> Callable[[Any, Any], Any]:
    """Attention as torch's library has it on a GPU; on the device meta it has only shapes."""
    return lambda model, x: torch.ops.aten._scaled_dot_product_flash_attention.default(x, x, x, dropout, True)[0] + 1


def test_attention_of_the_library_is_a_step_with_its_first_result(tmp_path: Path) -> None:
    x = torch.randn(1, 2, 16, 8, dtype=torch.bfloat16, device="meta")
    plan = Recorder().record(Model(flash(0.0)).to("meta"), [x])
    attention, added = plan.steps
    assert isinstance(attention, TorchStep) and attention.operator == FLASH and len(attention.results) == 1
    assert isinstance(added, TorchStep) and plan.outputs == added.results
    assert kind_and_family(FLASH) == ("compute", "attention")
    result = PlanExecutor(plan, {}, tmp_path, "meta")([x], dict.fromkeys(plan.weights, x))
    assert result.shape == x.shape and result.dtype is x.dtype


def test_attention_with_dropout_is_in_no_plan(tmp_path: Path) -> None:
    x = torch.randn(1, 2, 16, 8, dtype=torch.bfloat16, device="meta")
    with pytest.raises(UnplannableCallError, match="with dropout, which draws random numbers"):
        Recorder().record(Model(flash(0.5)).to("meta"), [x])
    plan = Recorder().record(Model(flash(0.0)).to("meta"), [x])
    (first, *rest) = plan.steps
    assert isinstance(first, TorchStep)
    forged = plan.model_copy(update={"steps": (first.model_copy(update={"args": (*first.args[:3], 0.5, True)}), *rest)})
    with pytest.raises(UnplannableCallError, match="with dropout"):
        PlanExecutor(forged, {}, tmp_path, "meta")([x], dict.fromkeys(plan.weights, x))


@pytest.mark.parametrize("name", BODIES)
def test_a_plan_computes_on_other_inputs_and_weights(name: str, tmp_path: Path) -> None:
    plan, constants = planned(BODIES[name])
    model, x = Model(BODIES[name]), torch.randn(3, 4)
    executor = PlanExecutor(plan, constants, tmp_path, "cpu")
    executor.require_fit([x], weights_of(model))
    with torch.no_grad():
        got, wanted = executor([x], weights_of(model)), model(x)
    assert type(got) is type(wanted)
    pairs = zip(got, wanted, strict=True) if isinstance(got, tuple | list) else [(got, wanted)]
    assert all(torch.equal(first, second) for first, second in pairs)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (lambda model, x: x * x.sum().item(), "reads values of a tensor into Python"),
        (lambda model, x: x if bool(x[0, 0] > 0) else -x, "reads values of a tensor into Python"),
        (lambda model, x: x.to_sparse(), "layout"),
        (lambda model, x: 3.0, "an output of type float"),
    ],
)
def test_what_depends_on_values_has_no_plan(body: Callable[[Any, Any], Any], says: str) -> None:
    with pytest.raises(UnplannableCallError, match=says):
        planned(body)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (lambda model, x: x + torch.rand(4), "draws random numbers"),
        (lambda model, x: torch.nn.functional.dropout(x, training=True), "draws random numbers"),
    ],
)
def test_what_is_random_is_not_replayed(body: Callable[[Any, Any], Any], says: str, tmp_path: Path) -> None:
    plan, constants = planned(body)
    with pytest.raises(UnplannableCallError, match=says):
        PlanExecutor(plan, constants, tmp_path, "cpu")


def test_two_recordings_of_the_same_are_equal() -> None:
    first, second = (planned(BODIES["views"])[0] for _ in range(2))
    assert first.difference(second) is None


def test_other_layouts_do_not_fit(tmp_path: Path) -> None:
    plan, constants = planned(BODIES["arithmetic"])
    executor = PlanExecutor(plan, constants, tmp_path, "cpu")
    weights = weights_of(Model(BODIES["arithmetic"]))
    for other in (torch.randn(4, 4), torch.randn(4, 3).t(), torch.randn(3, 4).double()):
        with pytest.raises(UnplannableCallError, match="is not like"):
            executor.require_fit([other], weights)
    with pytest.raises(UnplannableCallError, match="weight"):
        executor.require_fit([torch.randn(3, 4)], {**weights, "weight": torch.randn(5)})


CODE = KernelCode(
    name="add",
    kind="c",
    text="int32_t add(float* X, int32_t n) { for (int32_t i = 0; i < n; ++i) { X[i] = X[i] + 1.0f; } return 0; }",
    entry="add",
    parameters=("pointer", "int32"),
)


def launching(*arguments: Any, code: str = CODE.digest) -> LaunchPlan:
    return LaunchPlan(
        inputs=(0,),
        layouts={0: TensorLayout(shape=(4,), strides=(1,), dtype="float32")},
        codes={CODE.digest: CODE},
        steps=(LaunchStep(code=code, arguments=arguments),),
        outputs=(0,),
        returns="tensor",
    )


def test_a_launch_runs_on_the_tensors_of_the_plan(tmp_path: Path) -> None:
    executor = PlanExecutor(launching({"tensor": 0}, 4), {}, tmp_path, "cpu")
    assert executor([torch.zeros(4)], {}).tolist() == [1.0] * 4


def test_parts_on_threads_run_all(tmp_path: Path) -> None:
    original = launching({"tensor": 0}, 4)
    (step,) = original.launches()
    plan = original.model_copy(update={"steps": (ParallelStep(launches=(step,)), step)})
    executor = PlanExecutor(plan, {}, tmp_path, "cpu")
    assert executor([torch.zeros(4)], {}).tolist() == [2.0] * 4


def remaking_its_input() -> LaunchPlan:
    """Memory of the plan's own in the place of an input would not be spoiled between calls."""
    plan = launching({"tensor": 0}, 4)
    made = TorchStep(operator="aten.empty.memory_format", args=([4],), results=(0,), layouts=(plan.layouts[0],))
    return plan.model_copy(update={"steps": (made, *plan.steps)})


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (launching(140_000_000, 4), "for a parameter of type"),
        (launching({"tensor": 7}, 4), "a tensor that no step made"),
        (launching({"tensor": 0}), "does not fit its kernel"),
        (launching({"tensor": 0}, {"tensor": 0}), "for a parameter of type"),
        (launching({"tensor": 0}, 4, code="0" * 64), "does not fit its kernel"),
        (launching({"tensor": 0}, "4"), "for a parameter of type int32"),
        (launching([{"tensor": 0}], 4), "for a parameter of type pointer"),
        (launching({"torch": "float32"}, 4), "for a parameter of type pointer"),
        (launching({"descriptor": 0}, 4), "for a parameter of type pointer"),
        (launching({"tensor": 0}, 4).model_copy(update={"outputs": (3,)}), "a tensor that no step made"),
        (launching({"tensor": 0}, 4).model_copy(update={"weights": {"w": 0}}), "a number and a layout of their own"),
        (launching({"tensor": 0}, 4).model_copy(update={"constants": {5: ""}}), "a number and a layout of their own"),
        (launching({"tensor": 0}, 4).model_copy(update={"inputs": (None,)}), "neither a tensor nor a value"),
        (remaking_its_input(), "a number that another one has"),
    ],
)
def test_a_forged_plan_is_refused(plan: LaunchPlan, says: str) -> None:
    with pytest.raises(UnplannableCallError, match=says):
        check_references(plan)


@pytest.mark.parametrize(
    "operator",
    [
        "cheat.product.default",
        "aten.set_.source_Tensor",
        "aten.nothing.default",
        "os.system",
        "aten.resize_.default",
        "aten._lazy_clone.default",
    ],
)
def test_other_operators_are_refused(operator: str, tmp_path: Path) -> None:
    plan, constants = planned(BODIES["arithmetic"])
    steps = (plan.steps[0].model_copy(update={"operator": operator}), *plan.steps[1:])
    with pytest.raises(UnplannableCallError, match="operator"):
        PlanExecutor(plan.model_copy(update={"steps": steps}), constants, tmp_path, "cpu")


@functools.cache
def half_kernel() -> Any:
    import tilelang
    import tilelang.cpu.language as T  # noqa: N812

    @T.prim_func
    def half(X: T.Tensor((8,), "float32"), Y: T.Tensor((8,), "float32"), part: T.int32):  # type: ignore[valid-type]
        with T.Kernel(1):
            for i in T.serial(4):
                Y[part * 4 + i] = X[part * 4 + i] * 2.0

    return tilelang.compile(half, target="c", compile_flags=["-O2"])


def test_parts_that_a_pool_computes_become_one_parallel_step(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def forward(model: Any, x: Any) -> Any:
        y = torch.empty_like(x)
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(half_kernel(), x, y, 1)
            half_kernel()(x, y, 0)
            other.result()
        return y

    half_kernel()
    plan = Recorder().record(Model(forward), [torch.randn(8)])
    (step,) = [step for step in plan.steps if isinstance(step, ParallelStep)]
    assert [launch.arguments[-1] for launch in step.launches] == [0, 1]
    x = torch.randn(8)
    assert torch.equal(PlanExecutor(plan, {}, tmp_path, "cpu")([x], weights_of(Model(forward))), x * 2)


def test_outputs_in_another_order_than_the_parameters() -> None:
    kernel = SimpleNamespace(params=["a", "b", "c", "d"], out_idx=[-1, 1])
    assert _in_order(kernel, ["a", "c"], ["d", "b"]) == kernel.params
    assert _in_order(SimpleNamespace(params=["a", "b"], out_idx=None), ["a", "b"], [None]) == ["a", "b"]


@torch.library.custom_op("kernelwright_test::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    return y.copy_(x * 2)


def test_an_operator_of_the_kernels_file_becomes_what_it_does() -> None:
    recorder = Recorder()
    plan = recorder.record(Model(lambda model, x: doubled(x)), [torch.randn(3, 4)])
    assert [line.split()[1] for line in plan.lines()] == ["empty_like.default", "mul.Tensor", "copy_.default"]


def test_nothing_of_a_call_is_left_for_the_next(tmp_path: Path) -> None:
    def remembers(model: Any, x: Any) -> Any:
        model.table.add_(1)
        return x + model.table

    recorder, model = Recorder(), Model(remembers)
    plan = recorder.record(model, [torch.zeros(3, 4)])
    executor = PlanExecutor(
        plan, {number: constant.clone() for number, constant in recorder.constants.items()}, tmp_path, "cpu"
    )
    x, weights = torch.zeros(3, 4), weights_of(model)
    first = executor([x], weights)
    once = first.clone()
    assert not torch.equal(executor([x], weights), once)
    executor.reserve(1)
    spoiled = executor([x], weights, 0)
    assert torch.equal(spoiled, once) and torch.equal(x, torch.zeros(3, 4))


def twice(model: Any, x: Any) -> tuple[LaunchPlan, Recorder]:
    before = Recorder()
    before.record(model, [x])
    recorder = Recorder(earlier=before)
    return recorder.record(model, [x]), recorder


@pytest.mark.parametrize(
    "body",
    [
        lambda model, x: x + torch.tensor([1.0, 2.0, 3.0, 4.0]),
        lambda model, x: x + torch.frombuffer(bytearray(16), dtype=torch.float32),
        lambda model, x: torch.from_numpy(x.numpy() * 2),
    ],
    ids=["a list", "a buffer", "numpy"],
)
def test_what_the_call_makes_itself_is_no_constant(body: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(UnplannableCallError, match="a tensor that the call makes without torch's operators"):
        twice(Model(body), torch.zeros(3, 4))


def test_a_constant_is_what_it_was_before_the_call() -> None:
    def counts(model: Any, x: Any) -> Any:
        model.table.numpy()[:] += 1
        return x + model.table[1:3].repeat(2)

    model = Model(counts)
    plan, recorder = twice(model, torch.zeros(3, 4))
    (constant,) = recorder.constants.values()
    assert constant.tolist() == [1.0, 2.0, 3.0, 4.0], "after one call, which was seen, and before the recorded one"
    assert list(plan.constants.values()) == [digest_of(constant)]


def test_memory_that_existed_is_known_whichever_object_views_it() -> None:
    kept = numpy.arange(4, dtype=numpy.float32)
    plan, _ = twice(Model(lambda model, x: x + torch.from_numpy(kept)), torch.zeros(3, 4))
    assert len(plan.constants) == 1


def test_in_inference_mode_the_parts_of_operators_are_recorded() -> None:
    """There torch hands on `contiguous` as one operator, which looks like a view although it copies."""

    def body(model: Any, x: Any) -> Any:
        with torch.inference_mode():
            return x.t().contiguous().reshape(-1).to(torch.float64)

    plan, _ = planned(body)
    steps = [step.operator for step in plan.steps if isinstance(step, TorchStep)]
    assert steps == ["aten.t.default", "aten.clone.default", "aten.view.default", "aten._to_copy.default"]


def test_what_torch_executes_as_one_operator_is_recorded_as_one() -> None:
    """Although it has a decomposition in Python, for compilers."""
    plan, _ = planned(lambda model, x: torch.nn.functional.interpolate(x.view(1, 1, *x.shape), scale_factor=2))
    steps = [step.operator for step in plan.steps if isinstance(step, TorchStep)]
    assert steps == ["aten.view.default", "aten.upsample_nearest2d.default"]


@pytest.mark.parametrize("name", ["contiguous.default", "reshape.default", "flatten.using_ints", "to.dtype"])
def test_what_may_copy_is_no_view_in_a_forged_plan(name: str) -> None:
    assert kind_and_family(f"aten.{name}")[0] == "compute"
