"""Pooling and depthwise convolutions: right in Triton's interpreter in each dtype, compiled for sm_90."""

from __future__ import annotations

import pytest

from .cases import DTYPES, Made, problem

CAUSAL = "return F.silu(self.c(x.transpose(1, 2))[..., :-3]).transpose(1, 2)"
LAST = "return self.c(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1) + x"
PICTURE = "torch.randn(2, 5, 11, 14, DTYPE)"
POOLS = {
    "max": "F.max_pool2d(x, 3, 2, 1)",
    "wide_max": "F.max_pool2d(x, (2, 3), 2, (0, 1), dilation=(2, 1), ceil_mode=True)",
    "average": "F.avg_pool2d(x * 2, 3, 2, 1).relu()",
    "inside": "F.avg_pool2d(x + 1, 3, 2, 1, count_include_pad=False)",
    "divided": "F.avg_pool2d(x, 2, divisor_override=3)",
    "adaptive": "F.adaptive_avg_pool2d(x, (11, 7))",
    "row": "F.max_pool1d(x[:, :, 0], 4) + F.avg_pool1d(x[:, :, 1], 4)",
}
PROBLEMS = {
    **{
        f"{name}_{dtype}": problem(f"return {text}", PICTURE, dtype=dtype)
        for dtype in DTYPES
        for name, text in POOLS.items()
        if dtype == "float32" or name in ("max", "average")
    },
    **{
        f"causal_{dtype}": problem(
            CAUSAL,
            "torch.randn(2, 33, 20, DTYPE)",
            init="self.c = nn.Conv1d(20, 20, 4, groups=20, padding=3)",
            dtype=dtype,
        )
        for dtype in DTYPES
    },
    "depthwise": problem(
        "return F.relu6(self.c(F.relu(x) + 1))",
        PICTURE,
        init="self.c = nn.Conv2d(5, 5, 3, stride=2, padding=1, groups=5, bias=False)",
    ),
    "widened": problem(
        "return self.c(x)", PICTURE, init="self.c = nn.Conv2d(5, 10, (3, 5), dilation=2, padding=4, groups=5)"
    ),
    "few_channels": problem(
        "return self.c(x)", "torch.randn(2, 6, 9, 8)", init="self.c = nn.Conv2d(6, 9, 3, groups=3, padding=1)"
    ),
    "channels_last": problem(
        LAST,
        "torch.randn(2, 9, 8, 6, DTYPE)",
        init="self.c = nn.Conv2d(6, 6, 7, groups=6, padding=3)",
        dtype="bfloat16",
    ),
    "nan": problem("return F.max_pool2d(x, 2)", "torch.tensor([[[[0.0, float('nan')], [1.0, float('-inf')]]]])"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_windows_are_right_and_compile_for_hopper(results: dict[str, Made], name: str) -> None:
    results[name].require_exact()
    results[name].require_structures("windows")
    assert results[name].shared and "1 Triton kernel " in results[name].header
