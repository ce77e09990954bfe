"""A schedule of a loop as the simulator takes it."""

from __future__ import annotations

from ..core import Config
from ..evaluators.loop_simulator import Loop, Step, Wait
from ..tuners.schedule.graph import Graph, Schedule, order_and_stage, refusal, versions
from ..tuners.schedule.space import ScheduleSpace


def loop_of(graph: Graph, schedule: Schedule, interval: int, iterations: int) -> Loop:
    """Return the body that a schedule gives: order, stages, versions of the results."""
    orders, stages = order_and_stage(graph, schedule, interval)
    kept = versions(graph, schedule, interval)
    loads = graph.roles.loading if graph.roles else ()
    steps = [
        Step(o.name, stage, o.latency, o.uses, kept[o.name], "load" if o.name in loads else "compute")
        for _, o, stage in sorted(zip(orders, graph.operations, stages, strict=True), key=lambda one: one[0])
    ]
    waits = [Wait(e.source, e.target, e.latency, e.distance, e.carries_data) for e in graph.edges]
    return Loop(tuple(steps), tuple(waits), graph.limits, iterations)


def loop_in(space: ScheduleSpace, config: Config, iterations: int) -> Loop | str:
    """Return the loop of a config, which may hold further constants; or why it cannot be built."""
    graph, (schedule, interval) = space.graph(space.tiles_of(config)), space.schedule_of(config)
    return refusal(graph, schedule, interval) or loop_of(graph, schedule, interval, iterations)
