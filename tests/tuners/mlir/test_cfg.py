from __future__ import annotations

from pathlib import Path

import pytest
from kernelwright.core import OptionError
from kernelwright.tuners.mlir.cfg import read_cfg

from .modules import SEED_CFG


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "auto-scheduler.cfg"
    path.write_text(text)
    return path


def test_the_seeds_file_is_read_with_its_repeated_keys(tmp_path: Path) -> None:
    found = read_cfg(written(tmp_path, SEED_CFG))
    assert (found.input_file, found.output_file) == (tmp_path / "matmul.mlir", tmp_path / "matmul.csv")
    assert (found.tuner, found.trials) == ("xgboost", 16)
    assert found.ranges["tile_k"] == (32, 64, 128, 256)
    assert found.ranges["block_dim_x"] == (64,)


def test_comments_absent_parts_and_a_later_value_are_fine(tmp_path: Path) -> None:
    found = read_cfg(
        written(tmp_path, "# mine\n[SearchSpace]\ntile_m = [8]  ; small\ntile_m = [16, 16]\nshared = [0, 1]\n")
    )
    assert found.ranges == {"tile_m": (16,), "shared": (0, 1)}
    assert (found.tuner, found.trials, found.input_file) == (None, None, None)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("tile_m = [64,128]", "tile_m = [64,x]", r"line 10: tile_m = \[64,x\]; write whole numbers from 1"),
        ("tile_m = [64,128]", "tile_m = []", "line 10: tile_m"),
        ("tile_m = [64,128]", "tile_m = [0]", "line 10: tile_m"),
        ("tile_m = [64,128]", "tile_q = [64]", r"line 10: \[SearchSpace\] has no key tile_q; use tile_m"),
        ("tile_m = [64,128]", "tile_m", "line 10: 'tile_m' is not an entry; write key = value"),
        ("block_dim_z = [1]", "block_dim_z = [1, 2]", r"line 15: block_dim_z must be 1; write block_dim_z = \[1\]"),
        (
            "block_dim_y = [2]",
            "block_dim_y = [32]",
            "line 15: the smallest block .* has 2048 threads; a block has 1024",
        ),
        ("n_trial = 16", "n_trial = many", "line 20: n_trial = many; write a whole number"),
        ("XGBoostTuner", "GATuner", "line 19: tuner = GATuner: there is no tuner 'GATuner'; .*|XGBoostTuner"),
        ("[SearchStrategy]", "[Search]", r"line 18: there is no section \[Search\]; use \[Env\]"),
        ("[Env]\n", "", "line 1: iree_bin stands in no section"),
    ],
)
def test_a_bad_value_is_named_with_its_line(tmp_path: Path, old: str, new: str, why: str) -> None:
    with pytest.raises(OptionError, match=why):
        read_cfg(written(tmp_path, SEED_CFG.replace(old, new)))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("gridTuner", "grid"), ("GridTuner", "grid"), ("RandomTuner", "random"), ("portfolio", "portfolio")],
)
def test_tuners_have_the_seeds_names_too(tmp_path: Path, theirs: str, ours: str) -> None:
    assert read_cfg(written(tmp_path, SEED_CFG.replace("XGBoostTuner", theirs))).tuner == ours


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"cannot read .*auto-scheduler.cfg"):
        read_cfg(tmp_path / "auto-scheduler.cfg")
