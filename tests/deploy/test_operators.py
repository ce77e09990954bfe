"""Operators of packages with a kernel in plain torch: what callers, training and torch.compile get of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from .hand_made import KERNEL, REFERENCE, hand_made
from .results import python

COMPILED = """
import torch, mylib_redeployed as deployed

compiled = torch.compile(lambda *given: deployed.call(*given), fullgraph=True)
print(float(compiled(torch.ones(4, 8), torch.ones(8)).sum()))
"""


def test_compiled_code_of_another_package_of_the_name_is_not_run(tmp_path: Path) -> None:
    found = []
    for factor in (1, 2):
        kernel = KERNEL.replace("x * x", f"{factor} * x * x")
        hand_made(tmp_path / str(factor), "redeployed", kernel, visible=True, load=False)
        run = python(COMPILED, tmp_path / str(factor), TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"))
        found.append(run.stdout.splitlines()[-1:] or run.stderr)
    assert found == [["32.0"], ["64.0"]]


def test_second_derivatives_are_the_references(tmp_path: Path) -> None:
    deployed = hand_made(tmp_path, "differentiated")
    x, weight = (torch.rand(sizes, dtype=torch.float64, requires_grad=True) for sizes in ((4, 8), 8))
    with pytest.warns(UserWarning, match="no kernel for these dtype"):
        deployed.call(x, weight)
    assert torch.autograd.gradcheck(deployed.call, (x, weight))
    assert torch.autograd.gradgradcheck(deployed.call, (x, weight))
    given = torch.rand(4, 8, requires_grad=True)
    (first,) = torch.autograd.grad(deployed.call(given, torch.ones(8)).sum(), given, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), given)
    assert torch.allclose(second, torch.full((4, 8), 2.0))


def test_a_kernel_that_keeps_its_first_weights_is_not_verified(tmp_path: Path) -> None:
    assert hand_made(tmp_path, "right").verify()[0].passed
    kept = KERNEL.replace(
        "        return x * x * self.weight",
        "        if not hasattr(self, 'kept'):\n            self.kept = [self.weight.clone()]\n"
        "        return x * x * self.kept[0]",
    )
    assert not hand_made(tmp_path, "stale", kept).verify()[0].passed


def test_a_range_is_checked_at_odd_sizes_within(tmp_path: Path) -> None:
    arguments = [["float32", ["rows", 8]], ["float32", [8]]]
    even = KERNEL.replace("return x * x", "return x * x * (1 + len(x) % 2)")
    deployed = hand_made(tmp_path, "even", even, {"size": "rows", "from": 2, "to": 8}, arguments)
    found = {check.sizes: check.passed for check in deployed.verify()}
    assert found == {
        "the reference's sizes": True,
        "rows=2": True,
        "rows=5": False,
        "rows=3": False,
        "rows=8": True,
    }


def test_a_module_of_an_inference_is_trained_later(tmp_path: Path) -> None:
    """A reference with a tensor of its own is made by the first call that no kernel serves."""
    reference = REFERENCE.replace("        self.weight", "        self.ones = torch.ones(8)\n        self.weight")
    reference = reference.replace("x * x * self.weight", "x * (self.ones * self.weight)")
    deployed = hand_made(tmp_path, "inferred", reference=reference, reference_has_own_tensors=True)
    with torch.inference_mode(), pytest.warns(UserWarning, match="no kernel for these sizes"):
        deployed.call(torch.rand(3, 8), torch.rand(8))
    weight = torch.rand(8, requires_grad=True)
    deployed.call(torch.ones(3, 8), weight).sum().backward()
    assert torch.equal(weight.grad, torch.full((8,), 3.0))


def test_sparse_tensors_are_computed_by_the_reference(tmp_path: Path) -> None:
    deployed = hand_made(tmp_path, "sparse")
    x, weight = torch.eye(4, 8), torch.rand(8)
    with pytest.warns(UserWarning, match="no kernel for these strides"):
        found = deployed.call(x.to_sparse(), weight)
    assert torch.equal(found.to_dense(), x * x * weight)


def test_a_gradient_that_its_kernel_lacks_is_the_references(tmp_path: Path) -> None:
    """As for a buffer, which a caller may give as a tensor to train."""
    deployed = hand_made(tmp_path, "lacking")
    rows, calls = [SimpleNamespace(mismatch=lambda given: "")], []

    def gradient(x: torch.Tensor, given: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor]:
        calls.append(x)
        return (2 * x * weight * given,)

    deployed.OPERATOR.gradients = SimpleNamespace(
        dispatch=SimpleNamespace(rows=rows), schema=SimpleNamespace(returns=[None]), operator=gradient
    )
    for trained in (False, True):
        x, weight = torch.rand(4, 8, requires_grad=True), torch.rand(8, requires_grad=trained)
        deployed.call(x, weight).sum().backward()
        torch.testing.assert_close(x.grad, 2 * x * weight)
        torch.testing.assert_close(weight.grad, (x * x).sum(0) if trained else None)
    assert len(calls) == 1


def test_opcheck_finds_operators_of_python_lawful(tmp_path: Path) -> None:
    """The kinds whose packages have no tests of their own: with a range in plain torch, and of repeated steps."""
    arguments = [["float32", ["rows", 8]], ["float32", [8]]]
    ranged = hand_made(tmp_path, "ranged", serves={"size": "rows", "from": 2, "to": 8}, arguments=arguments)
    repeated = hand_made(tmp_path, "repeated", repeatable=True)
    for deployed in (ranged, repeated):
        for _ in range(2):
            torch.library.opcheck(deployed.call, (torch.rand(4, 8, requires_grad=True), torch.rand(8)))


def test_kernels_with_atomics_leave_deterministic_calls_to_the_reference(tmp_path: Path) -> None:
    deployed = hand_made(tmp_path, "atomic", KERNEL.replace("x * x", "2 * x * x"), deterministic=False)
    x, weight = torch.rand(4, 8), torch.rand(8)
    assert torch.equal(deployed.call(x, weight), 2 * x * x * weight)
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.warns(UserWarning, match="no kernel for these settings"):
            assert torch.equal(deployed.call(x, weight), x * x * weight)
    finally:
        torch.use_deterministic_algorithms(False)
    assert deployed.OPERATOR.dispatch.counted == {"settings": 1}
    assert torch.equal(deployed.call(x, weight), 2 * x * x * weight)


def test_a_comparison_names_settings_that_are_not_torchs_defaults(tmp_path: Path) -> None:
    deployed, products = hand_made(tmp_path, "settings"), torch.backends.cuda.matmul
    assert deployed.verify()[0].settings == ""
    products.allow_bf16_reduced_precision_reduction = False
    try:
        (check,) = deployed.verify()
    finally:
        products.allow_bf16_reduced_precision_reduction = True
    assert check.passed and str(check).endswith("allow_bf16_reduced_precision_reduction=False")
