"""Convolutions as products: right in Triton's interpreter in each dtype, compiled for sm_90."""

from __future__ import annotations

import pytest

from .cases import DTYPES, Made, problem

PICTURE = "torch.randn(2, 8, 9, 10, DTYPE)"
LAST = "return F.silu(self.c(x.permute(0, 3, 1, 2))).permute(0, 2, 3, 1).contiguous()"
PROBLEMS = {
    **{
        f"strided_{dtype}": problem(
            "return F.relu(self.c(x)) + x[:, :1, ::2, ::2]",
            PICTURE,
            init="self.c = nn.Conv2d(8, 12, 3, stride=2, padding=1)",
            dtype=dtype,
        )
        for dtype in DTYPES
    },
    "channels_last": problem(
        LAST,
        "torch.randn(2, 9, 8, 6, DTYPE)",
        init="self.c = nn.Conv2d(6, 20, 3, padding=1, bias=False)",
        dtype="float16",
    ),
    "transposed": problem(
        "return self.c(x)", PICTURE, init="self.c = nn.ConvTranspose2d(8, 6, 3, stride=2, padding=1, output_padding=1)"
    ),
    "transposed_groups": problem(
        "return self.c(x)", PICTURE, init="self.c = nn.ConvTranspose2d(8, 6, (1, 3), stride=(3, 1), groups=2)"
    ),
    "groups": problem(
        "return self.c(torch.exp(x))",
        "torch.randn(2, 80, 7, 6)",
        init="self.c = nn.Conv2d(80, 40, 3, groups=2, dilation=2, padding=2)",
    ),
    "row": problem(
        "return self.c(x)", "torch.randn(2, 24, 33, DTYPE)", init="self.c = nn.Conv1d(24, 7, 5)", dtype="float16"
    ),
    "volume": problem("return self.c(x)", "torch.randn(1, 4, 5, 4, 6)", init="self.c = nn.Conv3d(4, 6, 3, padding=1)"),
    "few_tiles": problem("return self.c(x)", "torch.randn(1, 300, 4, 4)", init="self.c = nn.Conv2d(300, 16, 3)"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_convolutions_are_right_and_compile_for_hopper(results: dict[str, Made], name: str) -> None:
    results[name].require_exact()
    results[name].require_structures("products")
    results[name].require_products("products")


def test_what_is_beside_a_convolution_is_in_its_kernel(results: dict[str, Made]) -> None:
    assert "1 Triton kernel " in results["strided_float32"].header
    assert "1 Triton kernel " in results["channels_last"].header
    assert "column + row * 20" in results["channels_last"].source, "its result is contiguous in the reference"


def test_terms_go_along_the_channels_where_these_are_last_in_memory(results: dict[str, Made]) -> None:
    assert "% 6" in results["channels_last"].source
    assert "column * 72 + sum_row" in " ".join(results["strided_float32"].source.split()), "as in the filters"


def test_programs_share_the_sum_of_a_convolution_with_few_tiles(results: dict[str, Made]) -> None:
    assert "products_convolution_0_combined" in results["few_tiles"].source
