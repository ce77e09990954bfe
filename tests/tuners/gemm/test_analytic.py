"""The configs that a search begins with, and the form of the analytic choice."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from kernelwright.core import Config, DeviceLimits, SearchSpace, Value
from kernelwright.core.parameter_roles import ParameterRoles
from kernelwright.corpus import find_kernel
from kernelwright.tuners.gemm.analytic import (
    DESCRIBED,
    FIRST,
    OF_TILE,
    analytic_choice,
    first_configs,
    product_of,
    space_for,
)  # fmt: skip
from kernelwright.tuners.gemm.device import H200_LIMITS
from kernelwright.tuners.gemm.ledger import Ledger
from kernelwright.tuners.gemm.result import ShapeResult
from kernelwright.tuners.gemm.shapes import Shape
from kernelwright.tuners.hardware import TileModel

ROOT = Path(__file__).parents[3]
A100_LIMITS = DeviceLimits(
    architecture="sm_80", multiprocessors=108, shared_bytes=163 * 1024, registers=65536, threads=2048
)
FREE: Mapping[str, Sequence[Value]] = {}


def first(
    shape: Shape,
    limits: DeviceLimits = H200_LIMITS,
    dtype: str = "float16",
    fixed: Mapping[str, Sequence[Value]] = FREE,
) -> tuple[SearchSpace, list[Config]]:
    product = product_of(shape, 1 if dtype.startswith("float8") else 2, dtype)
    space = space_for(find_kernel("gemm/gemm", "triton").read(), shape, product, limits, fixed)
    found = first_configs(space, limits, product)
    assert found[0] == analytic_choice(space, limits, product)
    return space, found


@pytest.mark.parametrize(
    ("shape", "limits", "dtype", "form"),
    [
        (Shape(4096, 4096, 4096), H200_LIMITS, "float16", "tma"),
        (Shape(4096, 4096, 1024), H200_LIMITS, "float16", "tma_tile"),  # no next tile whose operands a loop would load
        (Shape(4096, 4096, 1024), H200_LIMITS, "float8_e4m3fn", "plain"),
        (Shape(4096, 4096, 1024), A100_LIMITS, "float16", "plain"),
        (Shape(4096, 4096, 16), H200_LIMITS, "float16", "plain"),
        (Shape(4090, 4096, 1024), H200_LIMITS, "float16", "plain"),  # descriptors need whole lines
    ],
)
def test_descriptors_are_chosen_where_they_paid(shape: Shape, limits: DeviceLimits, dtype: str, form: str) -> None:
    _, found = first(shape, limits, dtype)
    chosen = found[0]["VARIANT"]
    assert chosen == form or (form == "plain" and chosen not in DESCRIBED)


def test_the_best_estimate_of_recorded_trials_is_nearly_the_fastest() -> None:
    """Block-scaled fp8 on an H200, 30 to 40 trials of each of 40 shapes."""
    recorded = json.loads((ROOT / "results/samples/h200/gemm_a8w8_trials.json").read_text())
    kernel = find_kernel("gemm/a8w8_blockscale", "triton").read()
    slower = []
    for shape_record in recorded["shapes"]:
        shape = Shape(m=shape_record["M"], n=shape_record["N"], k=shape_record["K"])
        times = {Config(zip(recorded["names"], trial[:-1], strict=True)): trial[-1] for trial in shape_record["trials"]}
        product = product_of(shape, 1, "float8_e4m3fn", kernel)
        chosen = analytic_choice(SearchSpace.listing(times), H200_LIMITS, product)
        slower.append(times[chosen] / min(times.values()))
    assert len(slower) == 40
    assert statistics.geometric_mean(slower) < 1.055
    assert max(slower) < 1.3


@pytest.mark.parametrize("m", [16, 256, 4096])
def test_a_search_begins_with_different_members(m: int) -> None:
    space, found = first(Shape(4096, 4096, m))
    assert len(found) == len(set(found)) == FIRST
    assert all(config in space for config in found)
    tiles = Counter((config["BLOCK_SIZE_M"], config["BLOCK_SIZE_N"]) for config in found)
    assert max(tiles.values()) == OF_TILE


def test_large_products_begin_with_the_forms_of_descriptors_that_were_right() -> None:
    _, found = first(Shape(4096, 4096, 4096))
    assert {config["VARIANT"] for config in found} & set(DESCRIBED) == {"tma", "tma_tile"}
    assert {(128, 256), (256, 128), (128, 128)} <= {
        (config["BLOCK_SIZE_M"], config["BLOCK_SIZE_N"]) for config in found
    }


def test_a_search_begins_with_one_round_of_tiles() -> None:
    _, found = first(Shape(7168, 2048, 256))
    assert (found[0]["BLOCK_SIZE_M"], found[0]["BLOCK_SIZE_N"], found[0]["VARIANT"]) == (128, 128, "tma_tile")


def test_forms_that_a_gpu_or_an_engine_lacks_are_no_members() -> None:
    for limits, fixed in ((A100_LIMITS, FREE), (H200_LIMITS, {"VARIANT": ["plain"]})):
        space, found = first(Shape(4096, 4096, 4096), limits, fixed=fixed)
        assert len(found) == FIRST
        assert not {config["VARIANT"] for config in found} & set(DESCRIBED)
        assert Config({**found[0], "VARIANT": "tma"}) not in space


def test_rows_that_are_alone_take_more_rounds() -> None:
    shape = Shape(4096, 4096, 4096)
    space, _ = first(shape)
    model = TileModel(space.encoded, ParameterRoles.of(space.names), H200_LIMITS, product_of(shape, 2, "float16"))
    small = Config({**space.default, "BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "NUM_WARPS": 4, "NUM_STAGES": 2})
    rows = space.encoded.rows([small, small])
    shared, alone = model.estimate(rows, rows[:, 0] != rows[:, 0]), model.estimate(rows, rows[:, 0] == rows[:, 0])
    assert (alone > shared).all()
    assert (shared == model.estimate(rows)).all()


def config(tile: int, group: int = 1, stages: int = 3) -> Config:
    return Config({"BLOCK_SIZE_M": tile, "GROUP_SIZE_M": group, "NUM_STAGES": stages})


def test_a_search_is_warmed_by_the_nearest_shapes_of_any_weight(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, {})
    times = {
        Shape(4096, 1024, 1024): {config(128): 2.0, config(128, 8): 2.2, config(128, 8, 4): 2.4, config(64): 3.0},
        Shape(4096, 4096, 4096): {config(256): 8.0},
        Shape(4096, 4096, 16): {config(16): 1.0},
        Shape(4096, 4096, 1024, "TT"): {config(32): 1.0},
        Shape(4096, 4096, 512): {},
    }
    for shape, found in times.items():
        ledger.add(ShapeResult(shape, times=found))
    # The half of the distance of K, then M alone; what differs in groups and stages only counts once.
    warm = ledger.warm(Shape(4096, 4096, 1024))
    assert warm == [(config(128), 1.0), (config(64), 1.5), (config(256), 1.0)]
