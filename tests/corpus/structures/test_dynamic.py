"""Kernels with a size that is free within a range: right in Triton's interpreter at several values of it, for sm_90."""

from __future__ import annotations

import pytest

from .cases import Made, problem

RANGE = 'tokens = 40\nFREE = ("tokens", 1, 40)\n'
LINEAR = "self.l = nn.Linear(48, 40)"


def dynamic(forward: str, inputs: str, arguments: str = "x", init: str = "pass", dtype: str = "float32") -> str:
    return problem(forward, inputs, arguments, init, dtype) + RANGE


PROBLEMS = {
    "gate": dynamic("a, b = x.chunk(2, -1)\nreturn F.silu(a) * b", "torch.randn(tokens, 96, DTYPE)"),
    "transposed": dynamic(
        "return (x.transpose(1, 2) + r).contiguous()", "torch.randn(3, tokens, 7), torch.randn(7, tokens)", "x, r"
    ),
    "padded": dynamic("return F.pad(torch.cat([x, x * 2], 1), (1, 2))", "torch.randn(tokens, 5)"),
    "multiple": dynamic("return x.reshape(-1, 6).relu()", "torch.randn(4 * tokens, 3)"),
    "rms_norm": dynamic(
        "h = x + r\nreturn h, h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * self.w",
        "torch.randn(3, tokens, 50), torch.randn(3, tokens, 50)", "x, r", "self.w = nn.Parameter(torch.rand(50))",
    ),
    "softmax": dynamic("return F.softmax(x * 0.5, dim=-1)", "torch.randn(2, tokens, 77, DTYPE)", dtype="bfloat16"),
    "layer_norm": dynamic("return F.silu(self.n(x))", "torch.randn(tokens, 96)", init="self.n = nn.LayerNorm(96)"),
    "free_rows": dynamic("return F.softmax(x, dim=-1), x.mean(-1)", "torch.randn(3, 5, tokens)"),
    "linear": dynamic("return F.gelu(self.l(x)) + r", "torch.randn(2, tokens, 48), torch.randn(40)", "x, r", LINEAR),
    "gated": dynamic(
        "return F.silu(x @ self.g) * (x @ self.u)", "torch.randn(tokens, 64, DTYPE)", "x",
        "self.g = nn.Parameter(torch.randn(64, 48))\nself.u = nn.Parameter(torch.randn(64, 48))", "bfloat16",
    ),
    "second_half": dynamic(
        "n = x.shape[0] // 2\nreturn x[:n] + x[n:]", "torch.randn(2 * tokens, 6)"
    ),
    "scores": dynamic(
        "return F.softmax(q @ k.transpose(-1, -2) * 0.2, -1) @ k",
        "torch.randn(2, tokens, 32), torch.randn(2, tokens, 32)", "q, k",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_kernel_is_right_in_all_of_a_range(results: dict[str, Made], name: str) -> None:
    found = results[name]
    found.require_exact()
    assert "torch computes" not in found.header
    assert "size_tokens = " in found.source and "Right for 1 <= tokens <= 40" in found.source
