"""Tuners by name, and what they are given to begin with."""

from __future__ import annotations

import pytest
from kernelwright.core import Config, DeviceLimits, MatrixProduct, OptionError, SearchSpace
from kernelwright.tuners import catalogue
from kernelwright.tuners.hardware import TileModel

from ..fakes import PROFILE

SPACE = SearchSpace.of({"A": list(range(10)), "B": list(range(10))})
TILES = SearchSpace.of({"BLOCK_M": [16, 32, 64, 128], "BLOCK_N": [16, 32, 64, 128], "BLOCK_K": [32, 64]})
GPU = PROFILE.model_copy(
    update={
        "limits": DeviceLimits(capability=90, multiprocessors=132, shared_bytes=232448, registers=65536, threads=2048),
        "product": MatrixProduct(m=4096, n=4096, k=4096, element_bytes=2),
    }
)


def config(a: int, b: int) -> Config:
    return Config({"A": a, "B": b})


def test_the_names() -> None:
    assert catalogue.names() == ["portfolio", "xgboost", "hill_climb", "annealing", "random", "grid"]
    assert catalogue.DEFAULT in catalogue.names()
    assert [name for name in catalogue.names() if not catalogue.adaptive(name)] == ["random", "grid"]


def test_an_unknown_name() -> None:
    with pytest.raises(OptionError, match="there is no tuner 'genetic'; use one of portfolio, xgboost"):
        catalogue.create("genetic", SPACE)


def test_the_fastest_elsewhere() -> None:
    warm = [(config(0, 0), 3.0), (config(0, 1), None), (config(0, 2), 1.0), (config(0, 3), 2.0), (config(0, 4), 1.0)]
    assert catalogue.fastest(warm, 3) == [config(0, 2), config(0, 4), config(0, 3)]
    assert catalogue.fastest(warm, 99) == [config(0, 2), config(0, 4), config(0, 3), config(0, 0)]
    assert catalogue.fastest((), 3) == []


@pytest.mark.parametrize(("name", "count"), [("portfolio", 6), ("xgboost", 8), ("hill_climb", 3)])
def test_start_then_the_fastest_elsewhere_come_first(name: str, count: int) -> None:
    warm = [(config(a, 9 - a), 10.0 - a) for a in range(10)]
    first = [config(5, 5), *(config(a, 9 - a) for a in range(9, 9 - count, -1))]
    assert catalogue.create(name, SPACE, 0, warm, [config(5, 5), config(77, 0)]).ask(count + 1) == first


@pytest.mark.parametrize("name", catalogue.names())
def test_warm_configs_outside_the_space_are_left_out(name: str) -> None:
    tuner = catalogue.create(name, SPACE, 0, [(config(50, 50), 1.0), (Config({"Z": 1}), 0.5)], [config(99, 99)])
    assert all(config in SPACE for config in tuner.ask(30))


def test_the_model_of_tiles_chooses_first_candidates_where_it_applies() -> None:
    likely = TILES.lattice.config(TileModel(TILES, GPU).candidates(1)[0])
    assert catalogue.create("portfolio", TILES, 3, profile=GPU).ask(1) == [likely]
    shuffled = {catalogue.create("portfolio", TILES, seed, profile=PROFILE).ask(1)[0] for seed in range(5)}
    assert len(shuffled) > 1
