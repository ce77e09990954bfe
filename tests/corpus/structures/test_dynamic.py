"""Kernels with a size that is free within a range: right in Triton's interpreter at several values of it, for sm_90."""

from __future__ import annotations

import pytest

from .cases import Made, dynamic
from .test_scans import RECURRENCE
from .test_top_k import ROUTING

LINEAR = "self.l = nn.Linear(48, 40)"


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
    "counted": dynamic(
        "n = x.shape[1]\nreturn x / n + n, torch.arange(n) * 2 + n, x.sum(1) / n", "torch.randn(3, tokens)"
    ),
    "scan": dynamic("return (x * 2).cumsum(-1).relu() + x", "torch.randn(tokens, 77, DTYPE)", dtype="bfloat16"),
    "free_scan": dynamic("return x.exp().cumsum(1), (1 + x / 50).cumprod(1)", "torch.randn(3, tokens, 9)"),
    "recurrence": dynamic(
        RECURRENCE, "torch.randn(2, tokens, 20, DTYPE), torch.randn(2, tokens, 20, DTYPE)", "x, a", dtype="bfloat16"
    ),
    "routing": dynamic(ROUTING, "torch.randn(tokens, 128)"),
    "choice": dynamic(ROUTING, "torch.randn(5, tokens)", least=8),
    "smallest": dynamic("return torch.topk(x, 3, dim=1, largest=False)", "torch.randn(2, tokens, 7)", least=3),
    "scores": dynamic(
        "return F.softmax(q @ k.transpose(-1, -2) * 0.2, -1) @ k",
        "torch.randn(2, tokens, 32), torch.randn(2, tokens, 32)", "q, k",
    ),
}  # fmt: skip


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_kernel_is_right_in_all_of_a_range(results: dict[str, Made], name: str) -> None:
    found = results[name]
    found.require_exact()
    assert "torch computes" not in found.header
    assert "size_tokens = " in found.source and "<= tokens <= 40" in found.source
