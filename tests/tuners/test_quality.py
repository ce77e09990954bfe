"""Searches over two recorded products on an H200, 792 configs each: models and neighbours must beat chance clearly.

The bounds leave room for other versions of the libraries: the portfolio needs 13 and 19 evaluations on average, random
search 88 and 61.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from kernelwright.tuners import catalogue
from kernelwright.tuners.formats import read_recording
from kernelwright.tuners.recording import Recording

RECORDED = Path(__file__).parents[2] / "results" / "samples" / "h200" / "spaces"
SEEDS = range(6)


@cache
def recorded(name: str) -> Recording:
    return read_recording(RECORDED / f"{name}.csv.gz")


@cache
def evaluations(name: str, tuner: str) -> float:
    """Until a config has 95 % of the best one's speed, on average."""
    recording = recorded(name)
    needed = 0
    for seed in SEEDS:
        search = catalogue.create_tuner(tuner, recording.space, seed)
        found = False
        while not found:
            (config,) = search.ask()
            verdict = recording.evaluation(config)
            search.tell(config, verdict)
            needed += 1
            found = verdict.latency_ms is not None and 0.95 * verdict.latency_ms <= recording.best[1]
    return needed / len(SEEDS)


@pytest.mark.parametrize("tuner", [name for name in catalogue.names() if catalogue.adaptive(name)])
def test_a_large_product(tuner: str) -> None:
    large = "gemm_4096_4096_4096"
    assert evaluations(large, tuner) <= 0.5 * evaluations(large, "random")


@pytest.mark.parametrize("tuner", ["portfolio", "xgboost", "annealing"])
def test_a_small_product(tuner: str) -> None:
    small = "gemm_512_512_512"
    assert evaluations(small, tuner) <= 0.6 * evaluations(small, "random")
