"""The largest elements of rows: right in Triton's interpreter, compiled for sm_90."""

from __future__ import annotations

import pytest

from .cases import Made, problem

ROUTING = """
w, i = torch.topk(x.softmax(-1), 8)
return w / w.sum(-1, keepdim=True), i
"""
EXPERTS = """
w, i = torch.topk(torch.sigmoid(self.g(x).float()), 4)
return w / w.sum(-1, keepdim=True), i
"""
PROBLEMS = {
    "routing": problem(ROUTING, "torch.randn(65, 128)"),
    "experts": problem(EXPERTS, "torch.randn(33, 64)", init="self.g = nn.Linear(64, 16, bias=False)"),
    "smallest": problem("return torch.topk(x, 3, dim=1, largest=False)[0]", "torch.randn(5, 20, 7)"),
    "nan_is_largest": problem("return torch.topk(x, 2)[1]", "torch.tensor([[0.0, float('nan'), 2.0, 1.0]])"),
    "nan_is_not_smallest": problem(
        "return torch.topk(x, 2, largest=False)[1]", "torch.tensor([[3.0, float('nan'), 2.0, 5.0]])"
    ),
    "nan_is_returned": problem(
        "return torch.topk(x, 3)", "torch.tensor([[0.0, float('nan'), -0.0, -1.0, -float('nan'), float('inf')]])"
    ),
    "nan_comes_last": problem(
        "return torch.topk(x, 4, largest=False)", "torch.tensor([[3.0, float('nan'), -2.0, float('-inf')]])"
    ),
    "infinite": problem("return torch.topk(x, 3)[0]", "torch.tensor([[0.0, float('-inf'), 2.0, float('-inf')]])"),
}


@pytest.mark.parametrize(
    ("name", "structures"),
    [
        ("routing", ["top_k", "rows"]),
        ("experts", ["products", "top_k", "rows"]),
        ("smallest", ["top_k"]),
        ("infinite", ["top_k"]),
        ("nan_is_returned", ["top_k"]),
        ("nan_comes_last", ["top_k"]),
        ("nan_is_largest", ["top_k"]),
        ("nan_is_not_smallest", ["top_k"]),
    ],
)
def test_choices_are_right_and_compile_for_hopper(results: dict[str, Made], name: str, structures: list[str]) -> None:
    results[name].require_exact()
    results[name].require_structures(*structures)
    assert results[name].shared


def test_the_softmax_before_a_choice_is_in_its_kernel(results: dict[str, Made]) -> None:
    assert "tl.exp(" in results["routing"].source.split("@triton.jit")[1]
