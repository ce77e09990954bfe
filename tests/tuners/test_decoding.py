"""The analytic start of decoding: parts of keys give multiprocessors work, and full ones are left alone."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from kernelwright.core import Config, OptionError
from kernelwright.core.space_inference import declared_space
from kernelwright.corpus import find_kernel, find_problem
from kernelwright.tuners.decoding import DecodeShape
from kernelwright.tuners.gemm.device import H200_LIMITS

SHAPE = DecodeShape(batch=8, heads=32, kv_heads=8, queries=1, keys=8192, head_dim=128, head_dim_kv=128)


def likely(shape: DecodeShape, count: int = 6) -> list[tuple[Config, float]]:
    problem = find_problem("attention/decoding").read().resized("given", {"seq_len_k": shape.keys})
    space = declared_space(find_kernel("attention/decoding", "triton").read(), problem)
    assert space is not None
    return shape.likely(space, H200_LIMITS, count)


def splits(**sizes: int) -> int:
    return int(likely(replace(SHAPE, **sizes), 1)[0][0]["SPLITS"])


def test_the_page_has_the_starts() -> None:
    page = (Path(__file__).parents[2] / "docs" / "decoding.md").read_text()
    rows = re.findall(r"^\| (\d+), (\d+), (\d+), (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    assert len(rows) == 4
    for row in rows:
        batch, heads, kv_heads, keys, tiles, parts, block = map(int, row)
        shape = replace(SHAPE, batch=batch, heads=heads, kv_heads=kv_heads, keys=keys)
        start = likely(shape, 1)[0][0]
        assert (shape.tiles, start["SPLITS"], start["BLOCK_N"]) == (tiles, parts, block)


def test_few_tiles_are_split_until_all_multiprocessors_have_work() -> None:
    for batch, kv_heads in ((1, 1), (1, 8), (1, 32), (8, 8)):
        tiles = batch * kv_heads
        assert tiles * splits(batch=batch, kv_heads=kv_heads, keys=32768) >= 0.9 * 132


def test_many_tiles_and_few_keys_are_not_split() -> None:
    assert splits(batch=64, keys=2048) == 1
    assert splits(batch=132, kv_heads=1, keys=8192) == 1, "one tile for each multiprocessor"
    assert splits(batch=1, keys=64) == 1


def test_a_last_wave_of_few_tiles_is_split() -> None:
    """Of 140 tiles eight multiprocessors would get two each, and all others wait."""
    assert splits(batch=140, kv_heads=1, keys=32768) > 1


def test_the_first_choices_differ_in_parts_or_blocks_and_come_in_order() -> None:
    found = likely(SHAPE)
    assert len({(config["SPLITS"], config["BLOCK_N"]) for config, _ in found}) == 6
    assert [read for _, read in found] == sorted(read for _, read in found)


def test_what_does_not_fit_is_never_a_start() -> None:
    wide = replace(SHAPE, head_dim=256, head_dim_kv=256, width=4)
    config = Config({"BLOCK_N": 128, "SPLITS": 1, "NUM_WARPS": 4, "NUM_STAGES": 2})
    assert wide.resident(config, H200_LIMITS) == 0 and wide.bytes_read(config, H200_LIMITS) == float("inf")
    assert wide.resident(likely(wide, 1)[0][0], H200_LIMITS) >= 1
    assert SHAPE.resident(Config({**config, "BLOCK_N": 64}), H200_LIMITS) == 4


def test_rows_of_a_tile_are_the_queries_that_share_keys() -> None:
    assert (SHAPE.rows, SHAPE.tile_rows, SHAPE.tiles) == (4, 16, 64)
    drafts = replace(SHAPE, kv_heads=1, queries=3)
    assert (drafts.rows, drafts.tile_rows, drafts.tiles) == (96, 64, 16)


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ({"head_dim": 300}, "`head_dim` 300 is larger than the kernel's tiles; use at most 256"),
        ({"kv_heads": 5}, "32 heads cannot share 5 `num_kv_heads` evenly; use a divisor"),
        ({"keys": 2**24}, "`seq_len_k` 16777216 are too many; the keys of a head may have 2^31 elements"),
        ({"queries": 9, "keys": 8}, "`seq_len_q` 9 are more than the 8 keys of `seq_len_k`"),
    ],
)
def test_other_sizes_are_one_line(sizes: dict[str, int], says: str) -> None:
    with pytest.raises(OptionError) as refused:
        replace(SHAPE, **sizes)
    assert says in str(refused.value)


def test_tiles_of_odd_heads_are_padded() -> None:
    """Keys and values of 192 numbers take tiles of 256, so that two buffers of 256 keys do not fit."""
    start, _ = likely(replace(SHAPE, heads=64, kv_heads=1, keys=131_072, head_dim=192, head_dim_kv=192), 1)[0]
    shared = (int(start["NUM_STAGES"]) - 1) * int(start["BLOCK_N"]) * 2 * (256 + 256)
    assert shared <= H200_LIMITS.described.shared_bytes


def test_what_cannot_run_is_left_out() -> None:
    small = H200_LIMITS.model_copy(update={"architecture": "sm_75"})  # with 64 KiB of shared memory
    wide = replace(SHAPE, heads=64, kv_heads=1, head_dim=256, head_dim_kv=256, width=4)
    problem = find_problem("attention/decoding").read().resized("given", {"seq_len_k": SHAPE.keys})
    space = declared_space(find_kernel("attention/decoding", "triton").read(), problem)
    assert space is not None and wide.likely(space, small, 6) == []
