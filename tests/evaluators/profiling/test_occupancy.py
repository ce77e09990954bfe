"""Occupancy against values of CUDA's occupancy calculator."""

from __future__ import annotations

import pytest
from kernelwright.evaluators.profiling.occupancy import occupancy

KIB = 1024


@pytest.mark.parametrize(
    ("capability", "threads", "registers", "shared", "blocks", "share", "limited_by"),
    [
        (75, 64, 32, 4992, 12, 0.75, "shared memory"),  # in units of 256 bytes
        (80, 256, 32, 0, 8, 1.0, "threads"),
        (80, 256, 40, 0, 6, 0.75, "registers"),
        (80, 256, 64, 0, 4, 0.5, "registers"),
        (80, 128, 255, 0, 2, 0.125, "registers"),
        (80, 32, 16, 0, 32, 0.5, "blocks"),
        (80, 256, 32, 48 * KIB, 3, 0.375, "shared memory"),
        (80, 128, 32, 163 * KIB, 1, 1 / 16, "shared memory"),
        (86, 256, 32, 0, 6, 1.0, "threads"),
        (86, 1024, 32, 0, 1, 2 / 3, "threads"),
        (86, 64, 32, 0, 16, 2 / 3, "blocks"),
        (89, 32, 32, 0, 24, 0.5, "blocks"),
        (89, 128, 32, 99 * KIB, 1, 1 / 12, "shared memory"),
        (90, 128, 168, 0, 3, 12 / 64, "registers"),
        (90, 96, 96, 0, 6, 18 / 64, "registers"),  # each of the four parts holds 5 warps and a remainder
        (90, 384, 168, 0, 1, 12 / 64, "registers"),
        (90, 256, 32, 64 * KIB, 3, 0.375, "shared memory"),
        (90, 128, 32, 227 * KIB, 1, 1 / 16, "shared memory"),
        (90, 100, 32, 0, 16, 1.0, "threads"),  # a started warp counts as a whole one
        (100, 1024, 64, 0, 1, 0.5, "registers"),
    ],
)
def test_as_in_the_calculator(
    capability: int, threads: int, registers: int, shared: int, blocks: int, share: float, limited_by: str
) -> None:
    found = occupancy(f"sm_{capability}", threads, registers, shared)
    assert found is not None
    assert (found.blocks, found.limited_by) == (blocks, limited_by)
    assert found.share == pytest.approx(share)


@pytest.mark.parametrize(
    ("architecture", "threads", "registers", "waves"),
    [("gfx90a", 256, 100, 4), ("gfx942", 256, 96, 5), ("gfx950", 256, 94, 5), ("gfx1201", 128, 143, 10)],
)
def test_as_llvm_states_it_for_amd(architecture: str, threads: int, registers: int, waves: int) -> None:
    # '; NumVgprs: 96' and '; Occupancy: 5' in code for gfx942: waves of a part, one of each block.
    found = occupancy(architecture, threads, registers, 0)
    assert found is not None and (found.blocks, found.limited_by) == (waves, "registers")


def test_lds_limits_work_groups() -> None:
    found = occupancy("gfx942", 256, 32, 32 * KIB)
    assert found is not None and (found.blocks, found.share, found.limited_by) == (2, 0.25, "shared memory")
    # Units of 1280 bytes: 32 KiB takes 26 of 128.
    assert (found := occupancy("gfx950", 256, 32, 32 * KIB)) is not None and found.blocks == 4
    assert (found := occupancy("gfx950", 256, 32, 25 * 1280)) is not None and found.blocks == 5
    assert (found := occupancy("gfx1201", 256, 32, 25 * KIB + 1)) is not None and found.blocks == 4


def test_a_block_that_does_not_fit() -> None:
    too_many = occupancy("sm_90", 1024, 65, 0)
    too_much = occupancy("sm_86", 128, 32, 100 * KIB)
    assert too_many is not None and too_much is not None
    assert (too_many.blocks, too_many.share, too_many.limited_by) == (0, 0.0, "registers")
    assert (too_much.blocks, too_much.limited_by) == (0, "shared memory")


def test_every_block_pays_for_what_the_system_keeps() -> None:
    # Without the reserved KiB, four blocks of 57 KiB would fit into 228 KiB.
    found = occupancy("sm_90", 128, 32, 57 * KIB)
    assert found is not None and found.blocks == 3


def test_a_gpu_that_is_not_known() -> None:
    assert occupancy("sm_70", 128, 32, 0) is None
