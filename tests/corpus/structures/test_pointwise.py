"""What only arranges elements, and element-wise operators: right in Triton's interpreter, compiled for sm_90."""

from __future__ import annotations

import pytest

from .cases import Made, problem

PICTURE = "torch.randn(3, 5, 8)"
ARRANGED = {
    "slices": "x[1:, -4:, 1::3] * 2",
    "parts": "torch.cat([x.chunk(2, 2)[1], x.unbind(2)[3][..., None], x.split(3, 2)[2]], 2).exp()",
    "turned": "x.flip(0, 2).permute(2, 0, 1).reshape(10, 12).relu()",
    "framed": "F.pad(x, (1, 2, 0, 3), value=-1.5) + 1",
    "repeated": "x.repeat(2, 1, 3) * x[:, :1].expand(3, 10, 8).reshape(6, 5, 8).repeat(1, 1, 3)",
    "selected": "x.select(1, -2) + x[:, 0, ::1]",
    "stacked": "torch.stack([x, -x], 1).squeeze() + x[:, None]",
    "rolled": "x.roll(3, 2) - x",
    "lower": "x.tril(1) + x.triu(2) * 3",
}
COMPUTED = {
    "rounded": "torch.floor(x * 3) + torch.trunc(x * 5) + x.round() + (x * 7).ceil()",
    "remainders": "torch.remainder(x, 0.3) + torch.fmod(x, 0.3)",
    "powers": "x**3 + (x.abs() + 1) ** 0.5 + (x.abs() + 1) ** -1 + 2.0**x + (x.abs() + 1) ** 1.7",
    "chosen": "torch.where(x > 0.5, x, x.clamp(-0.5, 0.25)) + x.clamp(min=0.1) + torch.sign(x)",
    "flags": "((x > 0) & ~(x < 0.5) | (x == x.abs())).float() + torch.isnan(x / 0).float()",
    "logarithms": "torch.log1p(x.abs()) + torch.expm1(x) + torch.log2(x.abs() + 1) + torch.atan2(x, x + 3)",
}
GATHERS = {
    "gather": ("x.gather(1, i) * 2", "torch.randn(4, 9), torch.randint(0, 9, (4, 6))"),
    "negative": ("x[i] + 1", "torch.randn(7, 5), torch.randint(-7, 7, (3, 2))"),
    "two": ("x[:, i, i.flip(0)] * 3", "torch.randn(2, 6, 6), torch.randint(0, 6, (4,))"),
    "rows": ("x.index_select(1, i).exp()", "torch.randn(4, 9, 2), torch.randint(0, 9, (5,))"),
    "quotients": ("(i // 3 + i % 4 + torch.fmod(i, 7)).float() * x", "torch.randn(40), torch.arange(-20, 20)"),
}
PROBLEMS = {
    **{name: problem(f"return {text}", PICTURE) for name, text in (ARRANGED | COMPUTED).items()},
    **{name: problem(f"return {text}", inputs, "x, i") for name, (text, inputs) in GATHERS.items()},
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_elements_are_right_and_compile_for_hopper(results: dict[str, Made], name: str) -> None:
    results[name].require_exact()
    results[name].require_structures("pointwise")
    assert results[name].shared
