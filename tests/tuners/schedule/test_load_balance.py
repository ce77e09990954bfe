"""How evenly causal attention's work is shared."""

from __future__ import annotations

from kernelwright.tuners.schedule.attention import AttentionShape
from kernelwright.tuners.schedule.load_balance import OF_A_TILE, largest_load, most_balanced


def test_the_largest_load_is_counted_in_the_kernels_order() -> None:
    # Two heads of three tiles, two programs: (3, 3), then the other way (2, 2), then (1, 1).
    assert largest_load(heads=2, tiles=3, abreast=2, workers=2) == 3 + 2 + 1 + 3 * OF_A_TILE
    # Head by head: 3 and 2, the other way 1 and 3, then 2 and 1: the first has 3 + 3 + 2.
    assert largest_load(heads=2, tiles=3, abreast=1, workers=2) == 3 + 3 + 2 + 3 * OF_A_TILE


def test_the_most_balanced_share_of_an_h200() -> None:
    """64 heads of 16 tiles on 132 multiprocessors: evenly it would be 69.8 tiles of keys each."""
    assert largest_load(64, 16, 1, 132) == 72
    assert largest_load(64, 16, 16, 132) == 112.5  # 1.43 times as slow as one head abreast on an H200
    chosen = most_balanced(64, 16, 132, most=25)
    assert largest_load(64, 16, chosen, 132) == min(largest_load(64, 16, n, 132) for n in range(1, 26)) < 71
    shape = AttentionShape(4, 16, 16, 2048, 2048, 128, 128, causal=True)
    assert chosen in shape.heads_abreast()
    assert {"WAIT_IN_PLACE": True, "WORKERS": 132, "HEADS_ABREAST": chosen} in shape.first_changes()


def test_one_program_or_one_head_leave_no_choice() -> None:
    assert most_balanced(1, 8, 132, 25) == 1
    assert most_balanced(8, 4, 1, 25) == 1
    assert most_balanced(8, 4, 132, 0) == 1
