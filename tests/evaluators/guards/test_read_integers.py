"""What plans of several sets of integers may differ in, by plans that are written down."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from kernelwright.core.launch_plan import KernelCode, LaunchPlan, LaunchStep, TensorLayout, TorchStep
from kernelwright.evaluators.guards.read_integers import (
    MOST_CODES,
    MOST_INTEGERS,
    SETS,
    UnboundedPlansError,
    integers_that_differ,
)

LAYOUT = TensorLayout(shape=(4,), strides=(1,), dtype="float32")
NUMBERS = [131, 17, 64, 200, 5, 90]
"""One for each set."""


def code(name: str = "scale", text: str = "") -> KernelCode:
    return KernelCode(name=name, kind="ptx", text=text, entry=name, parameters=("pointer",))


def launch(*values: Any, of: KernelCode | None = None) -> LaunchStep:
    return LaunchStep(code=(of or code()).digest, arguments=({"tensor": 0}, *values))


def plan(*steps: LaunchStep | TorchStep, codes: Sequence[KernelCode] = (), **other: Any) -> LaunchPlan:
    """A plan of an input and a constant."""
    kept = {"constants": {1: "zeros"}, "layouts": {0: LAYOUT, 1: LAYOUT}, "outputs": (0,), "returns": "tensor"}
    known = {item.digest: item for item in (codes or [code()])}
    return LaunchPlan(inputs=(0,), codes=known, steps=steps, **{**kept, **other})


def test_a_number_that_is_passed_everywhere_counts_once() -> None:
    def with_sizes(number: int) -> LaunchPlan:
        made = TensorLayout(shape=(number, 8), strides=(8, 1), dtype="float32")
        empty = TorchStep(operator="aten.empty.memory_format", args=([number, 8],), results=(2,), layouts=(made,))
        return plan(empty, *(launch(number, k) for k in range(200)))

    assert integers_that_differ([with_sizes(number) for number in NUMBERS]) == 1


@pytest.mark.parametrize("values", [[0, 1, 0, 0, 1, 1], [1, 1, 1, 0, 1, 1]])
def test_a_flag_that_is_passed_to_many_launches_counts_once(values: list[int]) -> None:
    """Also one that other constants are like in all other plans."""
    found = [plan(*(launch(1, flag, k) for k in range(200))) for flag in values]
    assert integers_that_differ(found) == 1


def test_two_flags_that_are_alike_in_all_other_plans_count_twice() -> None:
    first, second = [0, 1, 0, 0, 1, 1], [0, 1, 0, 0, 1, 0]
    found = [plan(*(launch(a, b, k) for k in range(200))) for a, b in zip(first, second, strict=True)]
    assert integers_that_differ(found) == 2


@pytest.mark.parametrize(
    "two",
    [(0, 1), (0.0, -0.0), (1, True), (1.0, 1), (0.5, 0.25), ("floor", "trunc"), ({"float": "inf"}, {"float": "nan"})],
    ids=repr,
)
@pytest.mark.parametrize("of_one_kernel", [True, False])
def test_a_thousand_bits_are_too_many(two: tuple[Any, Any], of_one_kernel: bool) -> None:
    """However few columns of six bits there are, and whatever the two values are."""
    draw = random.Random(0)
    codes = [code() if of_one_kernel else code(f"scale_{k}") for k in range(1000)]
    found = [plan(*(launch(draw.choice(two), of=item) for item in codes), codes=codes) for _ in range(SETS)]
    with pytest.raises(UnboundedPlansError, match=f"integers, of which at most {MOST_INTEGERS} may"):
        integers_that_differ(found)


@pytest.mark.parametrize("value", [0.5, "floor", {"float": "inf"}, 7])
def test_values_of_a_launch_that_another_plan_lacks_count(value: Any) -> None:
    found = [plan(*[launch(*[value] * 30)] * (number == 3)) for number in range(SETS)]
    assert integers_that_differ(found) == 1 + 1 + 30 + 1  # the launch, its code, the values, its tensor


def test_what_exists_before_the_call_is_the_same() -> None:
    same = [plan(launch(number)) for number in NUMBERS]
    assert integers_that_differ(same) == 1
    column = TensorLayout(shape=(4, 1), strides=(1, 1), dtype="float32")
    typed = TensorLayout(shape=(4,), strides=(1,), dtype="int32")
    for other in (
        {"layouts": {0: LAYOUT, 1: column}},
        {"layouts": {0: LAYOUT, 1: typed}},
        {"constants": {1: "ones"}},
        {"packed": (1,), "constants": {}},
        {"weights": {"scale": 1}, "constants": {}},
    ):
        with pytest.raises(UnboundedPlansError, match="outlives the call"):
            integers_that_differ([*same[:-1], plan(launch(7), **other)])


def test_the_order_of_what_is_returned_counts() -> None:
    def returning(order: Sequence[int]) -> LaunchPlan:
        steps = [
            TorchStep(operator="aten.relu.default", args=({"tensor": 0},), results=(number,), layouts=(LAYOUT,))
            for number in range(2, 102)
        ]
        return plan(*steps, outputs=order, returns="tuple")

    orders = [[*range(2, 102)] for _ in range(SETS)]
    assert integers_that_differ([returning(order) for order in orders]) == 0
    for order in orders[1:]:
        order[:10] = order[1:10] + order[:1]
    assert integers_that_differ([returning(order) for order in orders]) == 10
    random.Random(0).shuffle(orders[-1])
    with pytest.raises(UnboundedPlansError):
        integers_that_differ([returning(order) for order in orders])


def test_a_compiler_may_specialise_and_no_more() -> None:
    usual, aligned = code(text="any"), code(text="multiples of 16")
    found = [plan(launch(1, of=item), codes=[item]) for item in (usual, aligned, usual, usual, aligned, usual)]
    assert integers_that_differ(found) == 1
    own = [code(text=str(number)) for number in range(SETS)]
    with pytest.raises(UnboundedPlansError, match="the code of scale differs from set to set"):
        integers_that_differ([plan(launch(of=item), codes=[item]) for item in own])


@pytest.mark.parametrize("also_earlier", [False, True], ids=["own alone", "those of earlier sets, too"])
def test_code_by_another_name_is_bounded(also_earlier: bool) -> None:
    own = [code(f"scale_{number}") for number in range(SETS)]
    found = []
    for number in range(SETS):
        codes = own[: number + 1] if also_earlier else [own[number]]
        found.append(plan(*(launch(of=item) for item in codes), codes=codes))
    with pytest.raises(UnboundedPlansError, match=f"{SETS} of {SETS} sets bring kernels of their own"):
        integers_that_differ(found)
    assert integers_that_differ([*found[:MOST_CODES], *[found[0]] * (SETS - MOST_CODES)]) > 0
