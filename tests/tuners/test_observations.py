"""What a search remembers of its configs, and what it lets a model learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from kernelwright.core import Config, SearchSpace
from kernelwright.tuners.observations import FAILURE, Observations

from ..fakes import evaluation, kernel

SPACE = SearchSpace.of({"A": [1, 2, 4], "B": ["x", "y"]}, ["A < 4 or B == 'x'"])
ROWS = SPACE.encoded.rows(SPACE)
KERNEL = kernel(1.0)


def observed(*results: float | str) -> Observations:
    """Observations of the first members, in order."""
    seen = Observations(SPACE)
    for config, result in zip(SPACE, results, strict=False):
        seen.tell(config, evaluation(KERNEL, config, result))
    return seen


def test_what_was_asked_is_pending_until_it_is_reported() -> None:
    seen = Observations(SPACE)
    config = seen.ask(ROWS[3])
    assert config == list(SPACE)[3]
    assert seen.pending.tolist() == [ROWS[3].tolist()]
    assert seen.is_fresh(ROWS).tolist() == [True, True, True, False, True]
    assert len(seen) == 0
    seen.tell(config, evaluation(KERNEL, config, 2.0))
    assert seen.pending.shape == (0, 2)
    assert seen.rows.tolist() == [ROWS[3].tolist()]
    assert not seen.is_fresh(ROWS)[3]


def test_what_was_never_asked_counts_as_asked_once_reported() -> None:
    seen = observed(1.0, "timeout")
    assert seen.fresh(ROWS).tolist() == ROWS[2:].tolist()


def test_of_two_verdicts_the_first_counts() -> None:
    seen = observed(3.0)
    config = next(iter(SPACE))
    seen.tell(config, evaluation(KERNEL, config, 1.0))
    assert len(seen) == 1
    assert seen.best_log_ms == pytest.approx(math.log(3.0))


@pytest.mark.parametrize("config", [{"A": 4, "B": "y"}, {"A": 9, "B": "x"}, {"A": 1}, {"A": 1, "B": "x", "C": 1}, {}])
def test_configs_outside_are_ignored(config: dict[str, int | str]) -> None:
    seen = Observations(SPACE)
    seen.tell(Config(config), evaluation(KERNEL, Config(config), 1.0))
    assert len(seen) == 0
    assert seen.best is None
    assert seen.is_fresh(ROWS).all()


def test_the_best_and_the_leaders_are_successes() -> None:
    seen = observed("crashed", 3.0, 1.0, "timeout", 2.0)
    assert seen.best is not None
    assert seen.best.tolist() == ROWS[2].tolist()
    assert seen.leaders(2).tolist() == ROWS[[2, 4]].tolist()
    assert seen.leaders(9).tolist() == ROWS[[2, 4, 1]].tolist()
    assert observed("crashed").leaders(3).shape == (0, 2)


def test_targets_are_logarithms_with_failures_behind_the_slowest() -> None:
    targets = observed(1.0, 2.0, 2.1, "timeout").targets()
    assert targets[:2] == pytest.approx(np.log([1.0, 2.0]))
    assert targets[1] < targets[2] < targets[3] == pytest.approx(math.log(2.1) + FAILURE)


def test_slow_times_are_drawn_in() -> None:
    """Beyond the median at most as far above it as the best is below."""
    targets = observed(1.0, 2.0, 3.0, 1e6, "timeout").targets()
    assert targets == pytest.approx(np.log([1.0, 2.0, 3.0, 9.0, 9.0]))


def test_targets_without_success_say_nothing() -> None:
    assert observed("timeout", "crashed").targets().tolist() == [0.0, 0.0]
    assert Observations(SPACE).targets().shape == (0,)
