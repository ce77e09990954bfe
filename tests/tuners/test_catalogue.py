"""Tuners by name, and what they are given to begin with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from kernelwright.core import Config, DeviceLimits, MatrixProduct, OptionError, Profile, SearchSpace, Tuner
from kernelwright.tuners import catalogue, portfolio, xgboost_search
from kernelwright.tuners.cost_model import CostModel
from kernelwright.tuners.gaussian_process import GaussianProcess
from kernelwright.tuners.hardware import TileModel
from kernelwright.tuners.observations import Floats

from ..fakes import PROFILE, evaluation, kernel

ROOT = Path(__file__).parents[2]
SPACE = SearchSpace.of({"A": list(range(10)), "B": list(range(10))})
TILES = SearchSpace.of({"BLOCK_M": [16, 32, 64, 128], "BLOCK_N": [16, 32, 64, 128], "BLOCK_K": [32, 64]})
GPU = PROFILE.model_copy(
    update={
        "limits": DeviceLimits(
            architecture="sm_90", multiprocessors=132, shared_bytes=232448, registers=65536, threads=2048
        ),
        "product": MatrixProduct(m=4096, n=4096, k=4096, element_bytes=2),
    }
)


def config(a: int, b: int) -> Config:
    return Config({"A": a, "B": b})


def test_the_names() -> None:
    names = catalogue.names()
    assert names == ["portfolio", "xgboost", "hill_climb", "annealing", "random", "grid"]
    assert catalogue.DEFAULT in names
    assert [name for name in names if not catalogue.adaptive(name)] == ["random", "grid"]
    assert [name for name in names if catalogue.exhaustive(name)] == ["grid"]
    for name in names:
        catalogue.check(name)


def create(name: str) -> Tuner:
    return catalogue.create_tuner(name, SPACE)


@pytest.mark.parametrize("call", [catalogue.check, create, catalogue.adaptive, catalogue.exhaustive, catalogue.preload])
def test_an_unknown_name(call: Callable[[str], object]) -> None:
    with pytest.raises(OptionError, match="there is no tuner 'genetic'; use one of portfolio, xgboost"):
        call("genetic")


def test_the_stride_is_the_grids() -> None:
    members = list(SPACE)
    assert catalogue.create_tuner("grid", SPACE, stride=30).ask(5) == [*members[::30], members[1]]
    assert catalogue.create_tuner("grid", SPACE).ask(2) == members[:2]


PRELOADED = """
import sys
from kernelwright.core import SearchSpace
from kernelwright.tuners import catalogue
from tests.fakes import evaluation, kernel

catalogue.preload(sys.argv[1])
before = {name.partition(".")[0] for name in sys.modules}
space = SearchSpace.of({"A": list(range(10)), "B": list(range(10))})
tuner = catalogue.create_tuner(sys.argv[1], space)
for _ in range(20):
    (config,) = tuner.ask()
    tuner.tell(config, evaluation(kernel(1.0), config, 1.0 + int(config["A"])))
print(*({name.partition(".")[0] for name in sys.modules} - before - sys.stdlib_module_names))
"""


@pytest.mark.parametrize("name", ["portfolio", "xgboost"])
def test_what_is_preloaded_is_all_that_a_search_imports(name: str) -> None:
    run = subprocess.run([sys.executable, "-c", PRELOADED, name], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


@pytest.mark.parametrize(("name", "count"), [("portfolio", 6), ("xgboost", 8), ("hill_climb", 3), ("annealing", 3)])
def test_start_then_the_fastest_elsewhere_come_first(name: str, count: int) -> None:
    warm = [(config(a, 9 - a), 10.0 - a) for a in range(10)]
    first = [config(5, 5), *(config(a, 9 - a) for a in range(9, 9 - count, -1))]
    assert catalogue.create_tuner(name, SPACE, 0, warm, [config(5, 5), config(77, 0)]).ask(count + 1) == first


@pytest.mark.parametrize("name", catalogue.names())
def test_warm_configs_outside_the_space_are_left_out(name: str) -> None:
    tuner = catalogue.create_tuner(name, SPACE, 0, [(config(50, 50), 1.0), (Config({"Z": 1}), 0.5)], [config(99, 99)])
    assert all(config in SPACE for config in tuner.ask(30))


def test_the_model_of_tiles_chooses_first_candidates_where_it_applies() -> None:
    model = TileModel.of(TILES, GPU)
    assert model is not None
    likely = TILES.encoded.config(model.candidates(1)[0])
    assert catalogue.create_tuner("portfolio", TILES, 3, profile=GPU).ask(1) == [likely]
    shuffled = {catalogue.create_tuner("portfolio", TILES, seed, profile=PROFILE).ask(1)[0] for seed in range(5)}
    assert len(shuffled) > 1


def columns(name: str, profile: Profile, monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, int]]:
    """How many columns each model of a search sees."""
    seen = set()

    def watched(model: Callable[..., object]) -> Callable[..., object]:
        def make(features: Floats, *rest: object) -> object:
            seen.add((model.__name__, features.shape[1]))
            return model(features, *rest)

        return make

    monkeypatch.setattr(xgboost_search, "CostModel", watched(CostModel))
    monkeypatch.setattr(portfolio, "CostModel", watched(CostModel))
    monkeypatch.setattr(portfolio, "GaussianProcess", watched(GaussianProcess))
    tuner = catalogue.create_tuner(name, TILES, 1, profile=profile)
    for trial in range(20):
        (config,) = tuner.ask()
        tuner.tell(config, evaluation(kernel(1.0), config, 1.0 + trial))
    return seen


def test_the_metrics_of_tiles_are_features_where_they_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three parameters, three products and three ratios of them, eight numbers."""
    assert columns("xgboost", PROFILE, monkeypatch) == {("CostModel", 9)}
    assert columns("xgboost", GPU, monkeypatch) == {("CostModel", 17)}
    assert columns("portfolio", PROFILE, monkeypatch) == {("CostModel", 9), ("GaussianProcess", 3)}
    assert columns("portfolio", GPU, monkeypatch) == {("CostModel", 17), ("GaussianProcess", 11)}
