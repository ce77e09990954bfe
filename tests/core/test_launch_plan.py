"""A launch plan survives JSON, and names the first difference from another one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kernelwright.core.launch_plan import KernelCode, LaunchPlan, LaunchStep, ParallelStep, TensorLayout, TorchStep

CODE = KernelCode(name="scale", kind="c", text="int32_t f(float* X) { return 0; }", entry="f", parameters=("pointer",))
LAYOUT = TensorLayout(shape=(2, 3), strides=(3, 1), dtype="float32")


def launch(*arguments: object) -> LaunchStep:
    return LaunchStep(code=CODE.digest, arguments=arguments)


def view(*shape: int) -> TorchStep:
    layout = TensorLayout(shape=shape, strides=(1,) * len(shape), dtype="float32")
    return TorchStep(operator="aten.view.default", args=({"tensor": 0}, list(shape)), results=(1,), layouts=(layout,))


def plan(*steps: TorchStep | LaunchStep | ParallelStep) -> LaunchPlan:
    return LaunchPlan(
        inputs=(0,), layouts={0: LAYOUT}, codes={CODE.digest: CODE}, steps=steps, outputs=(0,), returns="tensor"
    )


STEPS = st.one_of(
    st.builds(launch, st.integers(), st.floats(allow_nan=False, allow_infinity=False)),
    st.builds(view, st.integers(1, 9), st.integers(1, 9)),
    st.builds(lambda parts: ParallelStep(launches=tuple(map(launch, parts))), st.lists(st.integers(), min_size=2)),
)


@given(st.lists(STEPS, max_size=5))
def test_it_survives_json(steps: list[TorchStep | LaunchStep | ParallelStep]) -> None:
    original = plan(*steps)
    again = LaunchPlan.model_validate_json(original.model_dump_json())
    assert again == original and again.digest == original.digest and original.difference(again) is None
    assert len(original.lines()) == len(steps)


def test_lines_name_kernels_their_scalars_and_operators() -> None:
    threads = ParallelStep(launches=(launch({"tensor": 0}, 0), launch({"tensor": 0}, 1)))
    assert plan(view(6), launch({"tensor": 0}, 4, 0.5), threads).lines() == [
        "torch   view.default -> 6 float32",
        "launch  scale on 0.024 kB (4, 0.5)",
        "threads 2 x scale",
    ]


def test_the_first_difference_is_named() -> None:
    original = plan(view(6), launch({"tensor": 0}, 4))
    assert (
        original.difference(plan(view(6), launch({"tensor": 0}, 5)))
        == "step 2: 'launch  scale on 0.024 kB (4)', then 'launch  scale on 0.024 kB (5)'"
    )
    assert original.difference(plan(view(6))) == "2 steps, then 1"
    assert (
        original.difference(plan(view(6), launch({"tensor": 1}, 4)))
        == "the arguments of step 2 (launch  scale on 0.024 kB (4))"
    )
    assert original.difference(original.model_copy(update={"outputs": (1,)})) == "outputs"


def test_what_constants_contain_is_no_difference() -> None:
    first, second = (plan(view(6)).model_copy(update={"constants": {2: digest}}) for digest in ("a", "b"))
    assert first.difference(second) is None
    assert first.difference(first.model_copy(update={"constants": {}})) == "constants"
