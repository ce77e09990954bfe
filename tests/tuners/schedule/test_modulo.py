"""Bounds, scheduling, moves: nothing they give contradicts a checker that writes the iterations out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kernelwright.core import ScheduleError
from kernelwright.tuners.schedule.bounds import interval_bound, longest_paths, recurrence_bound, resource_bound
from kernelwright.tuners.schedule.graph import Edge, Graph, LoopOperation
from kernelwright.tuners.schedule.modulo import modulo_schedule, refit, shortest_schedule
from kernelwright.tuners.schedule.reservation import Reservations
from kernelwright.tuners.schedule.validator import ScheduleValidator, violations

from .loops import LIMITS, brute_force, chain, loops

few = settings(max_examples=40, deadline=None)


@few
@given(loops(), st.data())
def test_violations_are_those_that_a_checker_finds(graph: Graph, data: st.DataObject) -> None:
    interval = data.draw(st.integers(1, 12))
    schedule = {name: data.draw(st.integers(0, 30)) for name in graph.names}
    assert bool(violations(graph, schedule, interval)) == bool(brute_force(graph, schedule, interval))


@few
@given(loops(), st.randoms(use_true_random=False))
def test_whatever_is_scheduled_is_valid(graph: Graph, rng) -> None:
    priority = {name: rng.random() for name in graph.names}
    for schedule, interval in (graph.sequential(), shortest_schedule(graph), shortest_schedule(graph, priority, 9)):
        assert not brute_force(graph, schedule, interval)
        assert interval >= interval_bound(graph)
        assert min(schedule.values()) < interval


@few
@given(loops(), st.data())
def test_every_move_that_succeeds_is_valid_and_every_other_changes_nothing(graph: Graph, data: st.DataObject) -> None:
    schedule, interval = shortest_schedule(graph)
    validator = ScheduleValidator(schedule, interval, graph)
    for _ in range(4):
        node, cycle = data.draw(st.sampled_from(graph.names)), data.draw(st.integers(-3, 3 * interval))
        before = dict(validator.schedule)
        success, moved, why = validator.attempt_move(node, cycle)
        assert validator.schedule == before and bool(why) != success
        if not success:
            assert moved == before
            continue
        assert not brute_force(graph, moved, interval)
        assert (moved[node] - cycle) % interval == 0
        validator.commit_move(moved)
        assert (validator.rrt == Reservations.of(graph, moved, interval).table).all()


@few
@given(loops(5))
def test_no_schedule_has_an_interval_below_the_bound(graph: Graph) -> None:
    """Exhaustively, for small loops: all starts that one interval more would allow."""
    bound = interval_bound(graph)
    assume(bound > 1 and bound ** len(graph.names) <= 3000)
    below = bound - 1
    paths = longest_paths(graph, below)
    if paths is None:
        return
    # Each cell of the table for each operation: dependences then only choose the stages.
    for rows in np.ndindex(*[below] * len(graph.names)):
        schedule = dict(zip(graph.names, map(int, rows), strict=True))
        assert Reservations.of(graph, schedule, below).overfull()


def test_bounds_of_a_small_loop() -> None:
    graph = Graph(
        (LoopOperation("A", 3, {"tensor": (1, 1)}), LoopOperation("B", 2, {"tensor": (1,)})),
        (Edge("A", "B", 3), Edge("B", "A", 2, 2)),
        LIMITS,
    )
    assert resource_bound(graph) == 3
    assert recurrence_bound(graph) == 3  # 5 cycles over 2 iterations
    assert longest_paths(graph, 2) is None
    with pytest.raises(ScheduleError, match="an interval of 2 is impossible: the resources of one iteration need 3"):
        ScheduleValidator({"A": 0, "B": 3}, 2, graph)


def test_an_operation_longer_than_the_interval_meets_itself() -> None:
    graph = Graph((LoopOperation("A", 1, {"copy": (1, 0, 0, 1)}),), (), LIMITS)
    assert resource_bound(graph) == 2
    assert modulo_schedule(graph, 2) == {"A": 0}
    assert modulo_schedule(graph, 3, {"A": 0.0}) is None
    assert violations(graph, {"A": 0}, 3) == ["copy is overfull in cycle 0 of the interval"]


def test_a_move_pulls_what_depends_on_it() -> None:
    validator = ScheduleValidator({"N0": 0, "N1": 2, "N2": 4}, 4, chain(2, 2, 1))
    assert validator.attempt_move("N0", 3) == (True, {"N0": 3, "N1": 5, "N2": 7}, "")
    assert validator.attempt_move("N2", 0)[1] == {"N0": 0, "N1": 2, "N2": 4}  # the same, one interval later
    assert "is not an operation; use N0, N1, N2" in validator.attempt_move("N9", 0)[2]


def test_a_move_that_has_no_place() -> None:
    graph = Graph(
        (LoopOperation("A", 1, {"copy": (1,)}), LoopOperation("B", 1, {"copy": (1,)})),
        (Edge("A", "B", 1), Edge("B", "A", 1, 1)),
        LIMITS,
    )
    assert refit(graph, 2, {"A": 0, "B": 0}) == {"A": 0, "B": 1}
    wide = Graph((LoopOperation("A", 1, {"vector": (2,)}), LoopOperation("B", 1, {"vector": (2, 2)})), (), LIMITS)
    validator = ScheduleValidator({"A": 2, "B": 0}, 3, wide)
    assert validator.attempt_move("A", 1)[0]
    tight = Graph((LoopOperation("A", 1, {"copy": (1, 0, 1)}), LoopOperation("B", 1, {"copy": (1, 0, 1)})), (), LIMITS)
    validator = ScheduleValidator({"A": 0, "B": 1}, 4, tight)
    success, schedule, why = validator.attempt_move("B", 2)
    assert success and schedule == {"A": 1, "B": 2} and not why


def test_a_move_that_needs_the_others_in_another_order() -> None:
    sizes = {"A": (1,), "B": (1, 1), "C": (1,)}
    graph = Graph(tuple(LoopOperation(name, 1, {"copy": used}) for name, used in sizes.items()), (), LIMITS)
    success, moved, _ = ScheduleValidator({"A": 0, "B": 1, "C": 3}, 4, graph).attempt_move("C", 2)
    # With A in its place, two cells are free, but B needs two in a row.
    assert success and moved["A"] % 4 != 0 and moved["C"] % 4 == 2 and not brute_force(graph, moved, 4)


@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        ({"N0": 0, "N1": 2.5}, "N1 has no whole number as its cycle"),
        ({"N0": 0, "N1": 1}, "N1 starts in cycle 1, 1 before N0 allows it"),
        ({"N0": 0}, "N1 has no cycle"),
        ({"N0": 0, "N1": 2, "X": 1}, "X is not an operation"),
        ({"N0": -1, "N1": 2}, "N0 starts before cycle 0"),
    ],
)
def test_what_is_never_committed(schedule: dict[str, int], says: str) -> None:
    validator = ScheduleValidator({"N0": 0, "N1": 2}, 4, chain(2, 2))
    with pytest.raises(ScheduleError, match=says):
        validator.commit_move(schedule)
    assert validator.schedule == {"N0": 0, "N1": 2}
