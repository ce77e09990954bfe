"""Searches over a made-up recording, whose counts are known."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from kernelwright.core import Config, Evaluation, OptionError, SearchSpace, SpaceError, Status
from kernelwright.tuners.hill_climb import HillClimb
from kernelwright.tuners.recording import RecordedResult, Recording
from kernelwright.tuners.replay import ReplayedSearch, replay, summarize

KEYS = {
    "median_evaluations_to_95",
    "median_evaluations_to_99",
    "p90_evaluations_to_95",
    "p90_evaluations_to_99",
    "reached_95",
    "reached_99",
    "seeds",
    "budget",
    "best_ms",
    "median_best_ms",
    "overhead_ms_per_trial",
    "configs",
}


def config(a: int) -> Config:
    return Config({"A": a, "B": 1})


# By A: the third config has 95 % of the best speed, the fifth 99 %, the seventh is the best.
TIMES = [20.0, None, 10.5, 12.0, 10.1, 30.0, 10.0, 40.0]
RECORDING = Recording(
    {config(a): RecordedResult(t, Status.OK if t else Status.TIMEOUT) for a, t in enumerate(TIMES)}, name="made up"
)


class InOrder:
    """Asks for the configs of A in a given order, then for none."""

    def __init__(self, order: Iterator[int]) -> None:
        self._order = order
        self.calls: list[tuple[str, int]] = []

    def ask(self, n: int = 1) -> list[Config]:
        asked = [config(a) for _, a in zip(range(n), self._order, strict=False)]
        self.calls.append(("ask", n))
        return asked

    def tell(self, config: Config, evaluation: Evaluation) -> None:
        self.calls.append(("tell", int(config["A"])))


def search(*order: int, budget: int = 100, batch: int = 1) -> ReplayedSearch:
    return replay(RECORDING, lambda space, seed: InOrder(iter(order)), 0, budget, batch)


def hill_climb(space: SearchSpace, seed: int) -> HillClimb:
    return HillClimb(space, start=[list(space)[seed % space.size]], seed=seed)


def timeless(found: ReplayedSearch) -> ReplayedSearch:
    return replace(found, seconds=0.0)


def test_counts_and_curve() -> None:
    found = search(0, 1, 2, 3, 4, 5, 6, 7)
    assert found.curve == (20.0, 20.0, 10.5, 10.5, 10.1, 10.1, 10.0)
    assert (found.evaluations_to(0.95), found.evaluations_to(0.99)) == (3, 5)
    assert (found.best_ms, found.found_ms, found.size) == (10.0, 10.0, 8)


def test_a_threshold_is_part_of_its_level() -> None:
    """10 ms is 95 % of the speed of 9.5 ms, whatever the rounding of 9.5 / 0.95."""
    recording = Recording({config(0): RecordedResult(10.0), config(1): RecordedResult(9.5)})
    assert replay(recording, lambda space, seed: InOrder(iter([0])), 0, 1).evaluations_to(0.95) == 1


def test_failures_only() -> None:
    found = search(1)
    assert found.curve == (float("inf"),)
    assert found.evaluations_to(0.95) is None


def test_the_budget_ends_a_search() -> None:
    assert search(0, 1, 2, 3, budget=2).curve == (20.0, 20.0)


def test_repetitions_are_free_but_not_for_ever() -> None:
    assert search(0, 0, 0, 2, budget=5).curve == (20.0, 10.5)
    forever = replay(RECORDING, lambda space, seed: InOrder(0 for _ in count()), 0, 5)
    assert forever.curve == (20.0,)


def test_batches_are_asked_whole_and_reported_whole() -> None:
    tuner = InOrder(iter(range(8)))
    found = replay(RECORDING, lambda space, seed: tuner, 0, 5, batch=3)
    assert tuner.calls == [("ask", 3), *(("tell", a) for a in range(3)), ("ask", 2), ("tell", 3), ("tell", 4)]
    assert len(found.curve) == 5


def test_the_tuners_own_time() -> None:
    ticks = count()
    found = replay(RECORDING, lambda space, seed: InOrder(iter([0, 1])), 0, 9, clock=lambda: float(next(ticks)))
    # Three asks, the last one in vain, and two tells, a second each.
    assert found.seconds == 5.0
    assert found.overhead_ms == 2500.0


@pytest.mark.parametrize(("budget", "batch"), [(0, 1), (1, 0)])
def test_impossible_limits(budget: int, batch: int) -> None:
    with pytest.raises(OptionError, match="at least 1"):
        search(0, budget=budget, batch=batch)


def test_a_config_outside() -> None:
    with pytest.raises(SpaceError, match="made up does not contain A=9"):
        search(9)


def test_is_deterministic() -> None:
    for seed in range(5):
        first, second = (timeless(replay(RECORDING, hill_climb, seed, 50)) for _ in range(2))
        assert first == second
        assert first.found_ms == 10.0


def test_summary() -> None:
    orders = [(2, 4, 6), (0, 4, 6), (0, 1, 2)]
    summary = summarize([search(*order) for order in orders])
    assert set(summary) == KEYS
    assert summary | {"overhead_ms_per_trial": 0} == {
        "median_evaluations_to_95": 2,
        "p90_evaluations_to_95": 3,
        "reached_95": 1.0,
        "median_evaluations_to_99": 2,
        "p90_evaluations_to_99": None,
        "reached_99": 2 / 3,
        "seeds": 3,
        "budget": 100,
        "best_ms": 10.0,
        "median_best_ms": 10.0,
        "overhead_ms_per_trial": 0,
        "configs": 8,
    }


def test_a_tuner_that_never_gets_there() -> None:
    summary = summarize([search(1), search(1, 1)])
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert [summary[key] for key in KEYS if key.startswith(("median", "p90"))] == [None] * 5
    assert summary["reached_95"] == summary["reached_99"] == 0.0


def test_the_90th_percentile_is_a_seed_s_figure() -> None:
    """Of ten seeds the ninth: one that never gets there does not make it infinite, two do."""
    good, bad = search(2, 6), search(1)
    assert summarize([good] * 9 + [bad])["p90_evaluations_to_95"] == 1
    assert summarize([good] * 8 + [bad] * 2)["p90_evaluations_to_95"] is None


def test_no_replays() -> None:
    with pytest.raises(OptionError, match="at least one seed"):
        summarize([])


SEARCHING = """
import multiprocessing, threading, time
from kernelwright.tuners.replay import _end_with_parent


def search():
    threading.Thread(target=_end_with_parent, daemon=True).start()
    print("searching", flush=True)
    time.sleep(300)


if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=search)
    process.start()
    print(process.pid, flush=True)
    process.join()
"""


def test_a_process_ends_amid_a_search_when_its_parent_is_killed(tmp_path: Path) -> None:
    (tmp_path / "searching.py").write_text(SEARCHING)
    command = [sys.executable, str(tmp_path / "searching.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        lines = {parent.stdout.readline().strip() for _ in range(2)}
        (pid,) = lines - {"searching"}
        parent.kill()
    deadline = time.monotonic() + 60
    while Path("/proc", pid).exists():
        assert time.monotonic() < deadline, "it goes on"
        time.sleep(0.05)
