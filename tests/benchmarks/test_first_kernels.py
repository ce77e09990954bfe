"""The benchmark of first kernels: what a search found is measured once, beside the first kernel."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..agent.made_up import Scripted
from ..fakes import PROBLEM, REFERENCE_MS, kernel

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def tuned(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    found: Callable[..., dict[str, Any]] = runpy.run_path(str(BENCHMARKS / "first_kernels.py"))["tuned"]
    return found


def test_the_best_of_a_search_has_the_figures_of_its_comparison(tuned: Callable[..., dict[str, Any]]) -> None:
    searcher = Scripted()
    first = kernel(64.0, SPEED=64, SEARCH_SPACE={"SPEED": [16, 32, 64]})
    row = tuned(PROBLEM, first, searcher, 9)
    assert (row["status"], row["trials"], row["config"]["SPEED"]) == ("ok", 3, 16)
    assert (row["latency_ms"], row["speedup"]) == (16.0, REFERENCE_MS / 16)
    assert len(searcher.calls) == 3 + 2, "three trials, then the best beside the first kernel"


def test_where_nothing_is_faster_the_first_kernel_has_the_figures(tuned: Callable[..., dict[str, Any]]) -> None:
    searcher = Scripted()
    row = tuned(PROBLEM, kernel(16.0, SPEED=16, SEARCH_SPACE={"SPEED": [16, 32, 64]}), searcher, 9)
    assert (row["latency_ms"], row["config"]["SPEED"]) == (16.0, 16)
    assert len(searcher.calls) == 3 + 1, "it is compared with the reference alone"


def test_a_kernel_without_parameters_is_measured_once_more(tuned: Callable[..., dict[str, Any]]) -> None:
    searcher = Scripted()
    assert tuned(PROBLEM, kernel(16.0), searcher, 9)["trials"] == 0
    assert len(searcher.calls) == 1
