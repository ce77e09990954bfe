"""Torch's share of a plan: what is glue, what is work, whatever the operator is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from kernelwright.evaluators.guards.measured_share import (
    MeasuredShare,
    TorchOperator,
    forbidden_step,
    share_violation,
)
from kernelwright.evaluators.guards.torch_share import Operator, operators_of
from kernelwright.evaluators.replay.operators import kind_and_family
from kernelwright.evaluators.settings import AllowTorch
from torch.nn import functional as F  # noqa: N812  (as everybody calls it)

X, Y = torch.randn(128, 128), torch.randn(128, 128)
IMAGES, FILTERS = torch.randn(4, 64, 16, 16), torch.randn(64, 64, 3, 3)


def step(name: str) -> TorchOperator:
    kind, family = kind_and_family(name)
    return TorchOperator(name=name, kind=kind, family=family)


def rule(shares: dict[str, float], reference: Callable[[], Any], call_ms: float = 10.0) -> str | None:
    steps = tuple(map(step, shares))
    measured = MeasuredShare(steps=steps, steps_ms=tuple(share * call_ms for share in shares.values()), call_ms=call_ms)
    found = share_violation(measured, [Operator(**row) for row in operators_of(reference)], AllowTorch.GLUE)
    return found and found.where.split(",")[0]


def product() -> Any:
    return X @ Y


@pytest.mark.parametrize(
    "name",
    [
        "aten.mm.default", "aten._foreach_mm.default", "aten._slow_conv2d_forward.default",
        "aten.slow_conv3d_forward.default", "aten._embedding_bag_forward_only.default", "aten.linalg_lu_solve.default",
        "aten.index.Tensor", "aten.scatter.src", "aten.cumsum.default",
    ],
)  # fmt: skip
def test_an_operator_that_is_in_no_list_is_work(name: str) -> None:
    assert rule({name: 0.12}, product) == name.split(".")[1]
    assert rule({name: 0.08}, product) is None


def test_works_of_many_kinds_count_together() -> None:
    several = {"aten.mm.default": 0.06, "aten._foreach_mm.default": 0.06}
    assert rule(several, product) == "_foreach_mm"


def test_elementwise_work_may_take_half_where_it_is_not_the_bottleneck() -> None:
    assert rule({"aten.relu.default": 0.3, "aten.sum.dim_IntList": 0.15}, product) is None
    assert rule({"aten.relu.default": 0.4, "aten.sum.dim_IntList": 0.15}, product) == "relu"
    assert rule({"aten.relu.default": 0.12}, lambda: torch.relu(X)) == "relu"
    assert rule({"aten.relu.default": 0.08}, lambda: torch.relu(X)) is None


def test_copies_are_work_where_the_reference_copies() -> None:
    assert rule({"aten.clone.default": 0.9}, product) is None
    assert rule({"aten.clone.default": 0.9}, lambda: X.t().contiguous()) == "clone"


def test_what_the_reference_does_beside_its_bottleneck_may_be_left_to_torch() -> None:
    def reference() -> Any:
        return F.max_pool2d(F.conv2d(IMAGES, FILTERS), 2)

    (pool,) = [row["name"] for row in operators_of(reference) if "pool" in row["name"]]
    name = f"aten.{pool}.default"
    assert rule({name: 0.11}, reference) is None, "of its own share as much again is allowed"
    assert rule({name: 0.3}, reference) == pool


def test_a_few_microseconds_are_glue() -> None:
    assert rule({"aten.mm.default": 0.5}, product, call_ms=0.008) is None


def test_with_none_torch_only_allocates() -> None:
    assert forbidden_step([], AllowTorch.NONE) is None
    found = forbidden_step([step("aten.clone.default")], AllowTorch.NONE)
    assert found is not None and found.where.startswith("clone")
    assert forbidden_step([step("aten.mm.default")], AllowTorch.GLUE) is None
    for allowed in ("aten.empty.memory_format", "aten.zeros.default", "aten.view.default", "aten.fill_.Scalar"):
        assert kind_and_family(allowed)[0] == "free", allowed


@pytest.mark.parametrize(
    "reference",
    [lambda: F.interpolate(IMAGES, scale_factor=2), lambda: F.unfold(IMAGES, 3), lambda: IMAGES[:, [3, 1, 2, 0] * 16]],
)
def test_copies_are_work_where_the_reference_only_moves_elements(reference: Callable[[], Any]) -> None:
    assert rule({"aten.clone.default": 0.2}, reference) == "clone"
    assert rule({"aten.clone.default": 0.05}, reference) is None
    assert rule({"aten.clone.default": 0.9}, product) is None
