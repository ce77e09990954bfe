"""Few rows of great length: programs share them, and a second launch combines what they found."""

from __future__ import annotations

import pytest

from .cases import Made, problem

PROBLEMS = {
    "log_softmax": problem("return torch.log_softmax(x, -1)", "torch.randn(2, 200000, DTYPE)", "x", dtype="bfloat16"),
    "batch_norm": problem("return F.relu(self.n(x))", "torch.randn(4, 3, 100, 90)", init="self.n = nn.BatchNorm2d(3)"),
    "losses": problem(
        "return F.mse_loss(x, r), x.amax(), x.amin(), x.var()", "torch.randn(40, 701), torch.randn(40, 701)", "x, r"
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_few_rows_are_right_and_compile_for_hopper(results: dict[str, Made], name: str) -> None:
    results[name].require_exact()
    results[name].require_structures(*(("rows",) if name == "losses" else ("rows", "pointwise")))
    assert any(kernel.endswith("_combined") for kernel in results[name].shared)


def test_programs_share_what_one_pass_computes(results: dict[str, Made]) -> None:
    assert "2 Triton kernels " in results["losses"].header, "all of them in one pass"
    assert "3 Triton kernels " in results["batch_norm"].header, "two of statistics, and what needs them"
    assert "tl.exp(" in results["log_softmax"].source.split("_combined(")[1], "sums of exponentials are rescaled"
