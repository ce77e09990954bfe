"""Loops that hypothesis draws, and a checker that knows no table, no bound and no path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import strategies as st
from kernelwright.tuners.schedule.graph import Edge, Graph, LoopOperation

LIMITS = {"copy": 1, "tensor": 1, "vector": 2}


@st.composite
def loops(draw: st.DrawFn, most: int = 8) -> Graph:
    """Any loop with results from earlier and later iterations, and operations with gaps in what they use."""
    count = draw(st.integers(1, most))
    operations = []
    for i in range(count):
        resource = draw(st.sampled_from(sorted(LIMITS)))
        used = draw(st.lists(st.integers(0, LIMITS[resource]), max_size=4))
        operations.append(LoopOperation(f"N{i}", draw(st.integers(0, 5)), {resource: tuple(used)}))
    edges = []
    for _ in range(draw(st.integers(0, 2 * count))):
        source, target = draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))
        distance = draw(st.integers(0 if source < target else 1, 3))
        edges.append(Edge(f"N{source}", f"N{target}", draw(st.integers(0, 6)), distance))
    return Graph(tuple(operations), tuple(edges), LIMITS)


def brute_force(graph: Graph, schedule: Mapping[str, int], interval: int) -> list[str]:
    """Write out many iterations on one time line, and look at each dependence and each cell of it."""
    span = max(schedule.values()) + max(max(map(len, o.uses.values()), default=0) for o in graph.operations) + 1
    iterations = 2 * (span // interval + 1) + 4
    wrong = []
    for edge in graph.edges:
        for i in range(iterations - edge.distance):
            ready = schedule[edge.source] + i * interval + edge.latency
            if schedule[edge.target] + (i + edge.distance) * interval < ready:
                wrong.append(f"{edge} in iteration {i}")
    cells: Counter[tuple[str, int]] = Counter()
    for i in range(iterations):
        for operation in graph.operations:
            for resource, used in operation.uses.items():
                for offset, units in enumerate(used):
                    cells[resource, schedule[operation.name] + i * interval + offset] += units
    wrong += [f"{cell} holds {units}" for cell, units in cells.items() if units > graph.limits[cell[0]]]
    return wrong


def chain(*latencies: int, resource: str = "vector", units: int = 1) -> Graph:
    """Operations that each wait for the one before."""
    operations = tuple(LoopOperation(f"N{i}", latency, {resource: (units,)}) for i, latency in enumerate(latencies))
    edges = tuple(Edge(f"N{i}", f"N{i + 1}", latency) for i, latency in enumerate(latencies[:-1]))
    return Graph(operations, edges, LIMITS)
