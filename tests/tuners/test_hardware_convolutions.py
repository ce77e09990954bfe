"""What the model of tiles says of convolutions on an H200."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernelwright.core import MatrixProduct, SearchSpace
from kernelwright.tuners.hardware import constraints
from kernelwright.tuners.source_products import seen_in

from .devices import GPU, TRITON, of

LOOPS = {
    "for tap in range(9 * PARTS):\n  acc += tl.dot(a, b)": 9,
    "for i in range(3):\n  for j in tl.range(3):\n    for k in range(0, C, BK):\n      acc = tl.dot(a, b, acc)": 9,
    "for tap in range(9):\n  acc = precise(a, b, acc)": 9,
    "for tap in range(1, 9):\n  acc += tl.dot(a, b)": 9,
    "for k in range(0, N_SUM, BK):\n  acc += tl.dot(a, b)": 1,
    "for k in range(0, N_SUM, BK):\n  acc = precise(a, b, acc)": 1,
    "for tile in range(pid, tiles, programs):\n  for k in range(0, N_SUM, BK):\n    acc += tl.dot(a, b)": 1,
    "for i in range(3):\n  launched[grid](precise)\nacc += tl.dot(a, b)": 1,
}


@pytest.mark.parametrize(("loop", "taps"), LOOPS.items())
def test_a_kernel_sums_over_taps_one_by_one_or_together(loop: str, taps: int) -> None:
    product = MatrixProduct(m=1000, n=64, k=144, taps=9, element_bytes=4)
    kernel = replace(TRITON, source=f"def precise(a, b, acc):\n  return tl.dot(a, b, acc)\n{loop}\n")
    seen = seen_in(GPU.model_copy(update={"product": product}), kernel).product
    assert seen is not None and seen.taps == taps


def test_a_step_that_is_wider_than_a_taps_channels_is_not_worth_it() -> None:
    """Of 16 channels a step of 64 multiplies three quarters of zeros, unless it goes over taps."""
    space = SearchSpace.of({"BM": [128], "BN": [64], "BK": [16, 64], "WARPS": [4], "STAGES": [4]})
    product = MatrixProduct(m=2**20, n=64, k=144, taps=9, element_bytes=4)
    rows = space.encoded.members
    assert rows is not None
    narrow, wide = of(space, GPU.model_copy(update={"product": product})).estimate(rows)
    joined = product.model_copy(update={"taps": 1})
    together = of(space, GPU.model_copy(update={"product": joined})).estimate(rows)
    assert narrow + np.log(2) < wide
    assert narrow == pytest.approx(together[0]) and together[1] < wide


@pytest.mark.parametrize(
    ("tile", "rows"),
    [("(BLOCK_P, BLOCK_CO)", "BLOCK_P"), ("(BLOCK_CO, BLOCK_P)", "BLOCK_CO"), ("[BLOCK_CO, BLOCK_P]", "BLOCK_CO")],
)
def test_of_a_turned_tile_the_output_channels_are_the_rows(tile: str, rows: str) -> None:
    """The matrix units' 64 rows are channels then, for the estimate and for the tiles in shared memory."""
    space = SearchSpace.of({"BLOCK_P": [32, 64], "BLOCK_CO": [32, 64], "BLOCK_CI": [64], "WARPS": [4], "STAGES": [4]})
    constants = "BLOCK_P = 32\nBLOCK_CO = 32\nBLOCK_CI = 64\n"
    kernel = replace(TRITON, source=f"{constants}acc = tl.dot(a, b, tl.zeros({tile}, tl.float32))")
    product = MatrixProduct(m=2**16, n=2**16, k=2**12, element_bytes=2)
    seen = seen_in(GPU.model_copy(update={"product": product}), kernel)
    assert seen.product == product.model_copy(update={"turned": rows == "BLOCK_CO"})
    assert f"STAGES if {rows} >= 64 and WARPS >= 4" in constraints(kernel, space.names, seen)[-1]
    members = space.encoded.members
    assert members is not None
    fastest_first = [space.encoded.config(members[i]) for i in np.argsort(of(space, seen).estimate(members))]
    oblong = [config for config in fastest_first if config["BLOCK_P"] != config["BLOCK_CO"]]
    assert oblong[0][rows] == 64
