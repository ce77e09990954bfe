"""Running sums and products: right in Triton's interpreter in each dtype, compiled for sm_90."""

from __future__ import annotations

import pytest

from .cases import DTYPES, Made, problem

RECURRENCE = """
decay = torch.cumsum(F.logsigmoid(a.float()), 1)
return (torch.cumsum(x.float() * torch.exp(-decay), 1) * torch.exp(decay)).to(x.dtype)
"""
PROBLEMS = {
    **{
        f"{name}_{dtype}": problem(f"return {text}", inputs, dtype=dtype)
        for dtype in DTYPES
        for name, text, inputs in (
            ("last", "(x * 2).cumsum(-1).relu() + x", "torch.randn(3, 7, 77, DTYPE)"),
            ("middle", "x.exp().cumsum(1)", "torch.randn(3, 130, 9, DTYPE)"),
            ("long", "x.cumsum(-1)", "torch.randn(2, 9000, DTYPE)"),
        )
    },
    "product": problem("return (1 + x / 50).cumprod(0)", "torch.randn(70, 5)"),
    "backwards": problem("return x.flip(-1).cumsum(-1) * 2", "torch.randn(5, 40)"),
    "twice": problem("return x.cumsum(-1).cumsum(-1)", "torch.randn(5, 2100, DTYPE)", dtype="bfloat16"),
    "counted": problem("return (x > 0).cumsum(-1) - 1, x.int().cumsum(0)", "torch.randn(6, 33)"),
    "in_a_wider_dtype": problem(
        "return x.cumsum(-1, dtype=torch.float32)", "torch.randn(6, 90, DTYPE)", dtype="float16"
    ),
    "recurrence": problem(
        RECURRENCE, "torch.randn(2, 60, 20, DTYPE), torch.randn(2, 60, 20, DTYPE)", "x, a", dtype="bfloat16"
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_scans_are_right_and_compile_for_hopper(results: dict[str, Made], name: str) -> None:
    results[name].require_exact()
    results[name].require_structures("scans")
    assert results[name].shared


def test_what_is_before_and_after_is_in_the_scans_kernel(results: dict[str, Made]) -> None:
    assert "1 Triton kernel " in results["last_bfloat16"].header
    assert "1 Triton kernel " in results["recurrence"].header, "both sums"


def test_a_long_row_goes_on_from_part_to_part(results: dict[str, Made]) -> None:
    source = results["long_float32"].source
    assert "COLUMNS_0 = 2048" in source and "+ cumsum_before" in source
