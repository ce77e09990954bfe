"""Entries of tables as parameters of launches, and their way back into the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from .test_launches import LAUNCH, patched, written

TABLE = "TABLE = {512: 32, 1024: 64}  # by rows\n\n\n"
CONFIGS = (
    'CONFIGS = {\n    "small": {"BLOCK": 32, "num_warps": 2},\n    "large": {"BLOCK": 64, "num_warps": 8},\n}\n\n\n'
)
PAIRS = "PAIRS = [(32, 2), (64, 8)]\n\n\n"
OBJECTS = """class Tile:
    def __init__(self, block):
        self.block = block


TILES = {1: Tile(block=32), 2: Tile(block=64)}


"""
ADDED = "SIZES = []\nSIZES.append(32)\nSIZES.append(64)\n\n\n"
NAME = '    name = "large" if x.is_cuda else "small"\n'
OF_CONFIG = "    _scale[(5,)](x, y, 300, 2.0, **CONFIGS[name])\n"
NAMED = "    _scale[(5,)](x, y, 300, 2.0, BLOCK={}, num_warps=4, num_stages=3)\n"


@pytest.mark.parametrize(
    ("before", "body", "back"),
    [
        (TABLE, NAMED.format("TABLE[x.shape[0]]"), "TABLE = {512: 32, 1024: 128}  # by rows\n"),
        (TABLE, NAMED.format("TABLE.get(x.shape[0], 16)"), "TABLE = {512: 32, 1024: 128}  # by rows\n"),
        (TABLE, "    t = TABLE if x.is_cuda else {1: 16}\n" + NAMED.format("t[x.shape[0]]"), "1024: 128}  # by rows\n"),
        (CONFIGS, NAME + NAMED.format('CONFIGS[name]["BLOCK"]'), '"large": {"BLOCK": 128, "num_warps": 8},\n'),
        (CONFIGS, NAME + OF_CONFIG, '"large": {"BLOCK": 128, "num_warps": 8},\n'),
        (PAIRS, "    B, warps = PAIRS[x.shape[0] > 512]\n" + LAUNCH, "PAIRS = [(32, 2), (128, 8)]\n"),
        (PAIRS, "    pair = PAIRS[x.shape[0] > 512]\n" + NAMED.format("pair[0]"), "PAIRS = [(32, 2), (128, 8)]\n"),
        (OBJECTS, "    tile = TILES[x.ndim]\n" + NAMED.format("tile.block"), "2: Tile(block=128)}\n"),
        (ADDED, NAMED.format("SIZES[x.ndim]"), "SIZES.append(128)\n"),
    ],
)
def test_each_entry_of_a_table_is_a_parameter(tmp_path: Path, before: str, body: str, back: str) -> None:
    function = written(tmp_path, body, before)
    entries = {name: value for name, value in function.kernel.config.items() if name.startswith("SCALE_BLOCK")}
    assert {32, 64} <= set(entries.values())
    (last,) = (name for name, value in entries.items() if value == 64)
    text = patched(function, **{last: 128})
    assert back in text
    assert text.count("128") == 1, "the other entries are as they were"


def test_options_in_a_table(tmp_path: Path) -> None:
    function = written(tmp_path, NAME + OF_CONFIG, CONFIGS)
    (warps,) = (name for name, value in function.kernel.config.items() if value == 8)
    assert warps.startswith("SCALE_NUM_WARPS")
    assert '"large": {"BLOCK": 64, "num_warps": 4},\n' in patched(function, **{warps: 4})


def test_a_large_table_is_one_parameter(tmp_path: Path) -> None:
    table = f"TABLE = {{{', '.join(f'{n}: 64' for n in range(20))}}}\n\n\n"
    function = written(tmp_path, NAMED.format("TABLE[x.ndim]"), table)
    assert function.kernel.config["SCALE_BLOCK"] == 0
    assert "BLOCK=128, num_warps" in patched(function, SCALE_BLOCK=128)


@pytest.mark.parametrize(
    "body", ["    shape = (x.numel(), 1)\n" + NAMED.format("shape[0]"), NAMED.format("x.shape[0]")]
)
def test_an_extent_is_no_entry(tmp_path: Path, body: str) -> None:
    assert "BLOCK" not in str(written(tmp_path, body).kernel.declared_values)
