"""The operation of a problem, from the operators that torch reports."""

from __future__ import annotations

import pytest
from kernelwright.agent.program.retrieval import operation_of


@pytest.mark.parametrize(
    ("operators", "expected"),
    [
        (["mul", "mean", "add", "sqrt", "div"], "rmsnorm"),
        (["addmm", "mul", "leaky_relu"], "matmul"),
        (["convolution", "max_pool2d_with_indices", "hardtanh", "mean", "tanh"], "convolution"),
        (["bmm", "mul", "_softmax", "bmm"], "attention"),
        (["_scaled_dot_product_flash_attention_for_cpu"], "attention"),
        (["_softmax"], "softmax"),
        (["_log_softmax", "nll_loss_forward"], "cross-entropy"),
        (["native_layer_norm"], "layernorm"),
        (["sum"], "reduction"),
        (["sub", "pow", "mean"], "reduction"),
        (["cumsum"], "scan"),
        (["relu"], "elementwise"),
        ([], None),
    ],
)
def test_operations(operators: list[str], expected: str | None) -> None:
    assert operation_of(operators) == expected
