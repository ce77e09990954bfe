"""Mixtures of experts: weights that are gathered are read in the products' loop, right and compiled for sm_90."""

from __future__ import annotations

import pytest

from .cases import Made, problem

EXPERTS = """
self.g = nn.Linear(72, 6, bias=False)
self.a, self.b = nn.Parameter(torch.randn(6, 72, 50)), nn.Parameter(torch.randn(6, 50, 72))
"""
GATHERED = """
w, i = torch.topk(self.g(x).float().softmax(-1), 2)
h = F.silu(torch.einsum("td,tkdh->tkh", x, self.a[i]))
return (torch.einsum("tkh,tkhd->tkd", h, self.b[i]) * w[..., None].to(x.dtype)).sum(1)
"""
LOOP = """
w, i = torch.topk(self.g(x).float().softmax(-1), 2)
y = torch.zeros_like(x)
for e in range(6):
    y = y + ((i == e) * w).sum(-1, keepdim=True).to(x.dtype) * (F.silu(x @ self.a[e]) @ self.b[e])
return y
"""
PROBLEMS = {
    f"{name}_{dtype}": problem(text, "torch.randn(9, 72, DTYPE)", init=EXPERTS, dtype=dtype)
    for dtype in ("float32", "bfloat16")
    for name, text in (("gathered", GATHERED), ("loop", LOOP))
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_experts_are_right_and_compile_for_hopper(results: dict[str, Made], name: str) -> None:
    results[name].require_exact()
    results[name].require_structures("products", "top_k", "rows")
    results[name].require_products("products")


def test_weights_of_chosen_experts_are_not_copied(results: dict[str, Made]) -> None:
    assert "5 Triton kernels " in results["gathered_bfloat16"].header
    assert "torch.empty([9, 2, 72, 50]" not in results["gathered_bfloat16"].source
