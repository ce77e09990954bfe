"""The climb and the random keys, as tuners: what they ask for is valid, new, and gets better."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernelwright.core import Config, Evaluation, Measurement, SearchSpace, Tuner
from kernelwright.evaluators.loop_simulator import simulate
from kernelwright.evaluators.simulated import SimulatedEvaluator
from kernelwright.runtime.attention_result import loop_in, loop_of
from kernelwright.tuners import catalogue
from kernelwright.tuners.schedule import climb, priorities
from kernelwright.tuners.schedule.bounds import interval_bound
from kernelwright.tuners.schedule.climb import ScheduleClimb
from kernelwright.tuners.schedule.graph import Edge, Graph, LoopOperation, WarpRoles, refusal
from kernelwright.tuners.schedule.modulo import shortest_schedule
from kernelwright.tuners.schedule.priorities import RandomKeys, key_space
from kernelwright.tuners.schedule.space import ScheduleSpace

from ...fakes import PROBLEM, evaluation, kernel
from .loops import LIMITS, brute_force, chain, loops

KERNEL = kernel(1.0)


def three(length: int) -> Graph:
    """Load, multiply, reduce: the sequential schedule overlaps nothing."""
    return Graph(
        (
            LoopOperation("LOAD", 4, {"copy": (1, 1)}, buffer_bytes=10),
            LoopOperation("DOT", 2 * length, {"tensor": (1,) * length}),
            LoopOperation("SUM", 1, {"vector": (2,)}),
        ),
        (Edge("LOAD", "DOT", 4), Edge("DOT", "SUM", 2 * length), Edge("SUM", "SUM", 1, 1)),
        LIMITS,
        buffer_limit=40,
    )


TILES = SearchSpace.of({"TILE": [2, 3, 5]}, TILE=3)
SPACE = ScheduleSpace(lambda tiles: three(int(tiles["TILE"])), TILES)


@pytest.fixture(autouse=True)
def _give_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop has few schedules, so that most keys repeat one."""
    monkeypatch.setattr(priorities, "REPEATED", 200)
    monkeypatch.setattr(climb, "TRIES", 100)


def makers() -> dict[str, Tuner]:
    keys = key_space(SPACE)
    named = {name: RandomKeys(catalogue.create_tuner(name, keys, 1), SPACE) for name in ("hill_climb", "random")}
    return {"climb": ScheduleClimb(SPACE, 1), "moves": ScheduleClimb(SPACE, 1, greedy=False), **named}


def drive(tuner: Tuner, space: ScheduleSpace, trials: int, late: int = 0) -> list[tuple[Config, Evaluation]]:
    evaluator = SimulatedEvaluator(lambda config: loop_in(space, config, 40))
    done: list[tuple[Config, Evaluation]] = []
    waiting: list[Config] = []
    while len(done) + len(waiting) < trials and (asked := tuner.ask(1)):
        waiting += asked
        if len(waiting) > late:
            config = waiting.pop(0)
            (found,) = evaluator.evaluate(PROBLEM, KERNEL, [config])
            tuner.tell(config, found)
            done.append((config, found))
    return done


@pytest.mark.parametrize("name", list(makers()))
@pytest.mark.parametrize("late", [0, 5])
def test_each_code_once_each_schedule_valid_all_simulated(name: str, late: int) -> None:
    done = drive(makers()[name], SPACE, 40, late)
    codes = [SPACE.code(config) for config, _ in done]
    assert len(set(codes)) == len(codes) > 5
    for config, found in done:
        assert config in SPACE and found.ok and found.origin.value == "simulated"
        assert not brute_force(three(int(config["TILE"])), *SPACE.schedule_of(config))
    best = min(found.latency_ms or 9e9 for _, found in done)
    first = done[0][1].latency_ms
    assert first is not None and best < first


@pytest.mark.parametrize("name", list(makers()))
def test_what_an_earlier_run_measured_is_not_asked_for(name: str) -> None:
    before = drive(makers()[name], SPACE, 12)
    tuner = makers()[name]
    for config, found in before:
        tuner.tell(config, found)
    tuner.tell(Config({"OTHER": 1}), before[0][1])
    after = drive(tuner, SPACE, 10)
    assert not {SPACE.code(config) for config, _ in before} & {SPACE.code(config) for config, _ in after}


def test_it_is_deterministic_given_its_seed() -> None:
    first, second = (drive(makers()["climb"], SPACE, 20, 2) for _ in range(2))
    assert [config for config, _ in first] == [config for config, _ in second]


def test_from_the_sequential_schedule_to_the_bound() -> None:
    graph = three(3)
    space = ScheduleSpace(lambda tiles: graph)
    done = drive(ScheduleClimb(space, 0), space, 25)
    assert dict(done[0][0]) == {"INTERVAL": 11, "LOAD": 0, "DOT": 4, "SUM": 10}
    best = min(done, key=lambda pair: pair[1].latency_ms or 9e9)
    assert simulate(loop_of(graph, *space.schedule_of(best[0]), 40)).interval == interval_bound(graph) == 3


def test_a_small_space_is_exhausted() -> None:
    space = ScheduleSpace(lambda tiles: chain(1))
    tuner = ScheduleClimb(space, 0)
    assert len(drive(tuner, space, 50)) == 1
    assert tuner.ask() == []


@settings(max_examples=40, deadline=None)
@given(loops(), st.randoms(use_true_random=False))
def test_the_simulator_finds_no_wrong_value_in_a_valid_schedule(graph: Graph, rng) -> None:
    priority = {name: rng.random() for name in graph.names}
    for schedule, interval in (graph.sequential(), shortest_schedule(graph, priority)):
        assert not simulate(loop_of(graph, schedule, interval, 40)).wrong


def evaluation_of(config: Config, *samples: float) -> Evaluation:
    return evaluation(KERNEL, config, 1.0).model_copy(update={"measurement": Measurement(samples_ms=samples)})


def test_noise_is_no_improvement_and_the_streak_starts_again_at_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(climb, "RESTART", 3)
    tuner = ScheduleClimb(SPACE, 0)
    start, *others = [tuner.ask()[0] for _ in range(6)]
    tuner.tell(start, evaluation_of(start, 1.00, 1.01, 1.02))
    tuner.tell(others[0], evaluation_of(others[0], 0.99, 1.005, 1.03))
    assert (tuner._here, tuner._streak) == (others[0], 1)  # a plateau: across, but no better
    tuner.tell(others[1], evaluation_of(others[1], 1.5, 1.6, 1.7))
    assert (tuner._here, tuner._streak) == (others[0], 2)
    tuner.tell(others[2], evaluation_of(others[2], 0.5, 0.51, 0.52))
    assert (tuner._here, tuner._streak) == (others[2], 0)
    for config in (others[3], others[4], start):
        tuner.tell(config, evaluation(KERNEL, config, "compile_error"))
    assert tuner._streak == 3
    tuner.ask()
    assert tuner._streak == 0  # somewhere else


def test_what_was_under_way_at_a_restart_does_not_undo_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(climb, "RESTART", 2)
    tuner = ScheduleClimb(SPACE, 0)
    (start,) = tuner.ask()
    tuner.tell(start, evaluation_of(start, 1.00, 1.01, 1.02))
    worse, broken, late, best = tuner.ask(4)
    tuner.tell(worse, evaluation_of(worse, 2.0, 2.1, 2.2))
    tuner.tell(broken, evaluation(KERNEL, broken, "compile_error"))
    (elsewhere,) = tuner.ask()
    tuner.tell(late, evaluation_of(late, 1.5, 1.6, 1.7))
    assert tuner._here is None
    tuner.tell(elsewhere, evaluation_of(elsewhere, 1.8, 1.81, 1.82))
    assert tuner._here == elsewhere
    tuner.tell(best, evaluation_of(best, 0.5, 0.51, 0.52))  # better than all before
    assert tuner._here == best


def test_members_and_why_others_are_none() -> None:
    good = SPACE.config({"TILE": 3}, {"LOAD": 0, "DOT": 4, "SUM": 10}, 11)
    assert good in SPACE
    for changed in ({"INTERVAL": 2}, {"INTERVAL": 0}, {"DOT": 3}, {"TILE": 4}, {"SUM": 2.5}, {"SUM": True}, {"X": 1}):
        assert {**good, **changed} not in SPACE
    deep = SPACE.config({"TILE": 3}, {"LOAD": 0, "DOT": 13, "SUM": 19}, 3)
    assert deep not in SPACE  # five versions of ten bytes
    assert "nothing" not in SPACE


def test_it_gives_up_soon_where_nothing_can_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = replace(three(3), buffer_limit=5)
    searches = []

    def counted(*given: Any) -> tuple[dict[str, int], int]:
        searches.append(given)
        return shortest_schedule(*given)

    monkeypatch.setattr(climb, "shortest_schedule", counted)
    tuner = ScheduleClimb(ScheduleSpace(lambda tiles: graph), 0)
    assert tuner.ask() == [] == tuner.ask()
    assert len(searches) == climb.UNBUILT


def test_loads_that_wait_for_each_other_cost_no_trial() -> None:
    operations = (
        LoopOperation("K", 1, {"copy": (1,)}),
        LoopOperation("V", 1, {"copy": (1,)}),
        LoopOperation("QK", 1, {"tensor": (1,)}),
        LoopOperation("PV", 1, {"tensor": (1,)}),
    )
    edges = (Edge("K", "QK", 1), Edge("V", "PV", 1), Edge("QK", "PV", 1))
    behind = {"V": 0, "K": 1, "QK": 2, "PV": 7}  # QK of the next iteration goes before PV
    cases = ((1, behind, "waits"), (2, behind, "late"), (3, behind, ""), (1, {**behind, "V": 1, "K": 0}, ""))
    for depth, schedule, reason in cases:
        graph = Graph(operations, edges, LIMITS, roles=WarpRoles(("K", "V"), depth, ("PV",)))
        refused = refusal(graph, schedule, 4)
        assert reason in refused if reason else not refused
        assert bool(simulate(loop_of(graph, schedule, 4, 40)).wrong) == (reason == "waits")
