from __future__ import annotations

import pytest
from kernelwright.core import ScheduleError
from kernelwright.tuners.schedule.graph import (
    Edge,
    Graph,
    LoopOperation,
    WarpRoles,
    aligned,
    order_and_stage,
    refusal,
    versions,
)

from .loops import LIMITS, chain

A, B = LoopOperation("A", 1, {"copy": (1,)}), LoopOperation("B", 1, {"copy": (1,)})


@pytest.mark.parametrize(
    ("operations", "edges", "says"),
    [
        ((), (), "no operation"),
        ((A, A), (), "named twice"),
        ((A,), (Edge("A", "C", 1),), "an edge names C; use A"),
        ((A, B), (Edge("A", "B", -1),), "negative latency or distance"),
        ((A, B), (Edge("A", "B", 1), Edge("B", "A", 1)), "are a cycle of distance 0"),
        ((B, A), (Edge("A", "B", 1),), "B stands before A"),
        ((LoopOperation("A", -1),), (), "negative latency"),
        ((LoopOperation("A", 1, {"gpu": (1,)}),), (), "uses gpu, which has no limit"),
        ((LoopOperation("A", 1, {"copy": (1, 2)}),), (), "uses 2 units of copy, which has 1"),
    ],
)
def test_loops_that_no_schedule_satisfies(operations: tuple, edges: tuple, says: str) -> None:
    with pytest.raises(ScheduleError, match=says):
        Graph(operations, edges, LIMITS)


def test_a_limit_is_no_negative_number() -> None:
    with pytest.raises(ScheduleError, match="tensor has a negative limit; use 0 or more"):
        Graph((A,), (), {**LIMITS, "tensor": -1})


def test_an_edge_to_the_next_iteration_closes_no_cycle() -> None:
    Graph((A, B), (Edge("A", "B", 1), Edge("B", "A", 1, 1)), LIMITS)


def test_order_is_the_row_and_stage_the_interval() -> None:
    graph = chain(1, 1, 1)
    assert order_and_stage(graph, {"N0": 0, "N1": 4, "N2": 11}, 5) == ((0, 2, 1), (0, 0, 2))
    assert order_and_stage(graph, {"N0": 5, "N1": 9, "N2": 16}, 5) == ((0, 2, 1), (0, 0, 2))


def test_in_one_row_older_iterations_go_first() -> None:
    assert order_and_stage(chain(1, 1), {"N0": 0, "N1": 5}, 5) == ((1, 0), (0, 1))


def test_versions_and_what_they_rule_out() -> None:
    kept = LoopOperation("K", 1, {"copy": (1,)}, buffer_bytes=100)
    once = LoopOperation("S", 1, {"tensor": (1,)}, one_version=True)
    last = LoopOperation("E", 1, {"vector": (1,)})
    edges = (Edge("K", "S", 1), Edge("S", "E", 1))
    graph = Graph((kept, once, last), edges, LIMITS, buffer_limit=250)
    assert versions(graph, {"K": 0, "S": 1, "E": 2}, 3) == {"K": 1, "S": 1, "E": 1}
    assert versions(graph, {"K": 0, "S": 4, "E": 5}, 3) == {"K": 2, "S": 1, "E": 1}
    assert refusal(graph, {"K": 0, "S": 4, "E": 5}, 3) == ""
    assert "take 300 bytes of shared memory, and 250" in refusal(graph, {"K": 0, "S": 7, "E": 8}, 3)
    # Two stages, but each use stands before the next write.
    assert versions(graph, {"K": 0, "S": 3, "E": 6}, 3) == {"K": 1, "S": 1, "E": 1}
    assert "the result of S is needed when it is written again" in refusal(graph, {"K": 0, "S": 1, "E": 5}, 3)


def test_a_later_start_brings_uses_before_the_next_write() -> None:
    stages = Graph((A, B), (Edge("A", "B", 1),), LIMITS, stage_limit=1)
    assert refusal(stages, {"A": 2, "B": 3}, 3) == "it has 2 stages, and the compiler takes 1"
    assert aligned(stages, {"A": 2, "B": 3}, 3) == {"A": 0, "B": 1}
    assert aligned(stages, {"A": 0, "B": 4}, 3) is None


def test_roles_load_ahead_and_compute_in_one_stage() -> None:
    load, dot, soft, last = (LoopOperation(name, 2, {"tensor": (1,)}, 100) for name in ("LOAD", "DOT", "SOFT", "LAST"))
    edges = (Edge("LOAD", "DOT", 2), Edge("DOT", "SOFT", 2), Edge("SOFT", "LAST", 2))
    graph = Graph((load, dot, soft, last), edges, LIMITS, roles=WarpRoles(("LOAD",), 3, ("LAST",)))
    # The stage of a load says nothing, and its program comes first.
    for cycle in (0, 8):
        schedule = {"LOAD": cycle, "DOT": 10, "SOFT": 12, "LAST": 18}
        assert order_and_stage(graph, schedule, 5) == ((0, 1, 2, 3), (0, 0, 0, 1))
        assert versions(graph, schedule, 5)["LOAD"] == 3
        assert refusal(graph, schedule, 5) == ""
    apart = refusal(graph, {"LOAD": 0, "DOT": 5, "SOFT": 11, "LAST": 13}, 5)
    assert apart.startswith("SOFT is in a later stage than DOT")
    behind = refusal(graph, {"LOAD": 0, "DOT": 5, "SOFT": 7, "LAST": 16}, 5)
    assert behind.startswith("LAST is more than one stage behind")
