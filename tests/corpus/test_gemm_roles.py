"""Block-scaled products of warps in roles: their values, whatever the order in which the groups go on."""

from __future__ import annotations

import os

import pytest
import torch
from kernelwright.corpus import find_kernel

from .warp_groups import load

KERNEL = find_kernel("gemm/a8w8_blockscale", "tilelang").read()
BLOCK = 16
SHAPES = {"whole tiles": (64, 64, 48), "ragged": (70, 88, 90), "one tile": (5, 9, 20), "a row of tiles": (20, 150, 33)}


def small(form: str = "roles", columns: int = 2 * BLOCK, stages: int = 4, groups: int = 2) -> str:
    """Return the kernel with few rows and columns in a tile, and blocks of scales as small."""
    warps = {"NUM_WARPS": 4 * groups, "BLOCK_SIZE_M": 64 * groups}
    source = KERNEL.bind({"VARIANT": form, **warps, "GROUP_SIZE_M": 2, "NUM_STAGES": stages}).source
    tile = {"BLOCK_SIZE_M": groups * BLOCK, "BLOCK_SIZE_N": columns, "BLOCK_SIZE_K": BLOCK, "ROWS": BLOCK}
    return source + "".join(f"{name} = {value}\n" for name, value in {**tile, "BLOCK": BLOCK, "PART_N": BLOCK}.items())


def multiply(source: str, shape: str, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    (m, n, k), generator = SHAPES[shape], torch.Generator().manual_seed(seed)
    blocks = -(-k // BLOCK)
    a, b = (torch.randint(-4, 5, (rows, k), generator=generator).float() for rows in (m, n))
    a_scales, b_scales = (torch.rand(rows, blocks, generator=generator) + 0.5 for rows in (m, -(-n // BLOCK)))
    programs = 2 if "VARIANT = 'pairs'" in source else 1
    kernel = load(source, seed, groups=4 if "NUM_WARPS = 12" in source else 3, programs=programs)
    kernel["multiprocessors"] = lambda _: 2 * programs
    scaled = (
        a * a_scales.repeat_interleave(BLOCK, 1)[:, :k],
        (b * b_scales.repeat_interleave(BLOCK, 0)[:n].repeat_interleave(BLOCK, 1)[:, :k]),
    )
    return kernel["ModelNew"]()(a, b, a_scales, b_scales), scaled[0] @ scaled[1].T


def check(source: str, shape: str, *seeds: int) -> None:
    for seed in seeds:
        torch.testing.assert_close(*multiply(source, shape, seed), atol=0.5, rtol=1e-2)  # of bf16


FORMS = ("roles", "turns", "pairs")
SETTINGS = ((BLOCK, 1, 2), (BLOCK, 4, 2), (2 * BLOCK, 2, 2), (2 * BLOCK, 3, 2), (BLOCK, 3, 3))
"""Columns of a tile, stages, and groups."""
CASES = [
    (shape, form, *setting)
    for i, shape in enumerate(SHAPES)
    for j, form in enumerate(FORMS)
    for k, setting in enumerate(SETTINGS)
    if (i + j + k) % len(SETTINGS) == 0 or os.environ.get("TESTS_ALL_PAIRS") == "1"
]
"""Each form with each shape; TESTS_ALL_PAIRS=1 tries these with each setting, not with one."""


@pytest.mark.parametrize(("shape", "form", "columns", "stages", "groups"), CASES)
def test_values_in_an_order_of_the_groups_by_chance(
    shape: str, form: str, columns: int, stages: int, groups: int
) -> None:
    check(small(form, columns, stages, groups), shape, stages)


BROKEN = {
    "tiles are not waited for": ("roles", "T.barrier_wait(full[stage], number // NUM_STAGES % 2)", "pass"),
    "operands count as read too early": ("roles", "T.wait_wgmma(0)", "T.wait_wgmma(1)"),
    "the producer waits for no reader": (
        "roles", "T.barrier_wait(empty[stage], (number // NUM_STAGES + 1) % 2)", "pass"
    ),
    "operands are given back with the first part": ("roles", "if part == parts[-1]:", "if part == 0:"),
    "a group that does not say that it has read": ("roles", "if part == parts[-1]:", "if group == part == 1:"),
    "the phases begin again with each tile": ("roles", "number = lap * steps + step", "number = step"),
    "a tile that nobody takes": ("roles", "rounds = -(-tiles // workers)", "rounds = tiles // workers"),
    "scales of the step before": ("roles", "step + 1, a_scale", "step, a_scale"),
    "a part of the result is overwritten before it has left": ("roles", "T.tma_store_wait(0)\n", "pass\n"),
    "nobody has the first turn": (
        "turns", 'if VARIANT == "turns" and group == GROUPS - 1:', "if group == GROUPS:"
    ),
    "nobody takes the last turn": ("turns", 'if VARIANT == "turns" and group == 0:', "if group == GROUPS:"),
    "both groups wait for the same turn": ("turns", "T.sync_threads(TURN + group, 256)", "T.sync_threads(TURN, 256)"),
    "one of a pair does not hear of readers": ("pairs", "T.mbarrier_arrive(empty[stage], 0)", "pass"),
    "half of a pair's readers are enough": (
        "pairs", "([NUM_WARPS * PAIR] * NUM_STAGES)", "([NUM_WARPS] * NUM_STAGES)"
    ),
    "both of a pair take the same tile": (
        "pairs", "place(tile[0], program % PAIR, m, n)", "place(tile[0], 0, m, n)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("defect", BROKEN)
def test_a_defect_is_seen(defect: str) -> None:
    form, before, after = BROKEN[defect]
    source = small(form)
    assert before in source
    with pytest.raises(AssertionError):
        check(source.replace(before, after), "ragged", 0, 1, 2)


OF_THREE = {
    "the third group never has a turn": ("turns", "TURN + (group + 1) % GROUPS", "TURN + (group + 1) % 2"),
    "two groups have read, and the third not": ("roles", "([NUM_WARPS * PAIR] * NUM_STAGES)", "([8] * NUM_STAGES)"),
    "the third group's rows are not loaded": ("roles", "for group in tuple(range(GROUPS)):", "for group in (0, 1):"),
}


@pytest.mark.parametrize("defect", OF_THREE)
def test_a_defect_of_three_groups_is_seen(defect: str) -> None:
    form, before, after = OF_THREE[defect]
    source = small(form, BLOCK, stages=2, groups=3)
    assert before in source
    with pytest.raises(AssertionError):
        check(source.replace(before, after), "ragged", 0, 1, 2)
