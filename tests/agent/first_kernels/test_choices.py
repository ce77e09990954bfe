"""The values that tile sizes of Inductor's kernels may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from kernelwright.agent.first_kernels.choices import limits, loop_choices, template_choices
from kernelwright.core.expressions import Expression

ELEMENTS = [{"XBLOCK": 512, "num_warps": 8, "num_stages": 1}, {"XBLOCK": 1024, "num_warps": 4, "num_stages": 1}]
ROWS = [
    {"XBLOCK": 1, "R0_BLOCK": 2048, "num_warps": 16, "num_stages": 1},
    {"XBLOCK": 64, "R0_BLOCK": 64, "num_warps": 8, "num_stages": 1},
    {"XBLOCK": 8, "R0_BLOCK": 512, "num_warps": 2, "num_stages": 1},
]
ONE = [{"XBLOCK": 1, "num_warps": 1, "num_stages": 1}]
TINY = [{"XBLOCK": 2, "R0_BLOCK": 2, "num_warps": 2, "num_stages": 1}, *ROWS]


@pytest.mark.parametrize("configs", [ELEMENTS, ROWS, TINY, ONE])
def test_what_inductor_tried_stays_possible(configs: Sequence[Mapping[str, int]]) -> None:
    choices, texts = loop_choices(configs), list(limits(configs, 4))
    for config in configs:
        assert all(config[name] in values for name, values in choices.items())
        assert all(Expression(text)(config) for text in texts)


def test_elements_get_smaller_and_larger_blocks_and_other_warps() -> None:
    assert loop_choices(ELEMENTS) == {
        "XBLOCK": [256, 512, 1024, 2048],
        "num_warps": [2, 4, 8, 16],
        "num_stages": [1],
    }
    assert not all(Expression(text)({"XBLOCK": 256, "num_warps": 16}) for text in limits(ELEMENTS, 4))


def test_gaps_between_the_tiles_of_sums_are_filled_and_large_tiles_left_out() -> None:
    choices = loop_choices(ROWS)
    assert choices["XBLOCK"] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert choices["R0_BLOCK"] == [32, 64, 128, 256, 512, 1024, 2048, 4096]
    large = {"XBLOCK": 64, "R0_BLOCK": 512, "num_warps": 16}
    assert not all(Expression(text)(large) for text in limits(ROWS, 4))


def test_one_config_is_left_alone() -> None:
    assert loop_choices(ONE) == {"XBLOCK": [1], "num_warps": [1], "num_stages": [1]}
    assert not list(limits(ONE, 4))


def test_tiles_of_a_product_change_where_the_grid_follows() -> None:
    tiles, values = {"BLOCK_M": 128, "GROUP_M": 8, "BLOCK_K": 16}, {"num_warps": 2, "num_stages": 5}
    settings = {"num_warps": [2, 4, 8], "num_stages": [2, 3, 4, 5]}
    changed = {"BLOCK_M": [64, 128, 256], "GROUP_M": [8], "BLOCK_K": [16, 32]}
    assert template_choices(tiles, values, grid_follows=True) == changed | settings
    assert template_choices(tiles, values, grid_follows=False) == {
        "BLOCK_M": [128], "GROUP_M": [8], "BLOCK_K": [16], **settings,
    }  # fmt: skip
