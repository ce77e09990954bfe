"""Block-scaled products of warps in roles: their values, whatever the order in which the groups go on."""

from __future__ import annotations

import pytest
import torch
from kernelwright.core import Value
from kernelwright.corpus import find_kernel

from .warp_groups import load

KERNEL = find_kernel("gemm/a8w8_blockscale", "tilelang").read()
BLOCK = 16
SHAPES = {"whole tiles": (64, 64, 48), "ragged": (70, 88, 90), "one tile": (5, 9, 20), "a row of tiles": (20, 150, 33)}


def small(**config: Value) -> str:
    """Return the kernel with few rows and columns in a tile, and blocks of scales as small."""
    source = KERNEL.bind({"VARIANT": "roles", "NUM_WARPS": 8, "GROUP_SIZE_M": 2, "NUM_STAGES": 4}).source
    sizes = {"BLOCK_SIZE_M": 2 * BLOCK, "BLOCK_SIZE_N": 2 * BLOCK, "BLOCK_SIZE_K": BLOCK, "ROWS": BLOCK}
    for name, value in {**sizes, "BLOCK": BLOCK, "PART_N": BLOCK, **config}.items():
        source += f"\n{name} = {value!r}\n"
    return source


def multiply(source: str, shape: str, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    (m, n, k), generator = SHAPES[shape], torch.Generator().manual_seed(seed)
    blocks = -(-k // BLOCK)
    a, b = (torch.randint(-4, 5, (rows, k), generator=generator).float() for rows in (m, n))
    a_scales, b_scales = (torch.rand(rows, blocks, generator=generator) + 0.5 for rows in (m, -(-n // BLOCK)))
    kernel = load(source, seed, groups=3)
    kernel["multiprocessors"] = lambda _: 2
    scaled = (
        a * a_scales.repeat_interleave(BLOCK, 1)[:, :k],
        (b * b_scales.repeat_interleave(BLOCK, 0)[:n].repeat_interleave(BLOCK, 1)[:, :k]),
    )
    return kernel["ModelNew"]()(a, b, a_scales, b_scales), scaled[0] @ scaled[1].T


def check(source: str, shape: str, *seeds: int) -> None:
    for seed in seeds:
        torch.testing.assert_close(*multiply(source, shape, seed), atol=0.5, rtol=1e-2)  # of bf16


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", ["roles", "turns"])
@pytest.mark.parametrize(("columns", "stages"), [(BLOCK, 1), (BLOCK, 4), (2 * BLOCK, 2), (2 * BLOCK, 3)])
def test_values_in_an_order_of_the_groups_by_chance(shape: str, form: str, columns: int, stages: int) -> None:
    check(small(VARIANT=form, BLOCK_SIZE_N=columns, NUM_STAGES=stages), shape, stages)


BROKEN = {
    "tiles are not waited for": ("T.barrier_wait(full[stage], number // NUM_STAGES % 2)", "pass"),
    "operands count as read too early": ("T.wait_wgmma(0)", "T.wait_wgmma(1)"),
    "the producer waits for no reader": ("T.barrier_wait(empty[stage], (number // NUM_STAGES + 1) % 2)", "pass"),
    "operands are given back with the first part": ("if part == parts[-1]:", "if part == 0:"),
    "a group that does not say that it has read": ("if part == parts[-1]:", "if group == part == 1:"),
    "the phases begin again with each tile": ("number = lap * steps + step", "number = step"),
    "a tile that nobody takes": ("rounds = -(-tiles // workers)", "rounds = tiles // workers"),
    "scales of the step before": ("step + 1, a_scale", "step, a_scale"),
    "a part of the result is overwritten before it has left": ("T.tma_store_wait(0)\n", "pass\n"),
}


@pytest.mark.parametrize("defect", BROKEN)
def test_a_defect_is_seen(defect: str) -> None:
    before, after = BROKEN[defect]
    assert before in small()
    with pytest.raises(AssertionError):
        check(small().replace(before, after), "ragged", 0, 1, 2)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('if VARIANT == "turns" and group == GROUPS - 1:', "if group == GROUPS:"),
        ('if VARIANT == "turns" and group == 0:', "if group == GROUPS:"),
        ("T.sync_threads(TURN + group, 256)", "T.sync_threads(TURN, 256)"),
    ],
)
def test_a_turn_that_is_not_passed_on_is_seen(before: str, after: str) -> None:
    source = small(VARIANT="turns")
    assert before in source
    with pytest.raises(AssertionError):
        check(source.replace(before, after), "ragged", 0)
