"""Climbs schedules of random loops in the simulator, and compares the interval with its proven lower bound.

    python benchmarks/schedules.py [--graphs 10] [--operations 12] [--trials 200] [--json FILE]

Every climb starts from the sequential schedule. The lower bound is the larger of the resource bound and the recurrence
bound; a loop need not have a schedule of that interval. The interval is what the simulator measures in the steady
state. Beside it: random moves, and random keys under the portfolio and random search, at the same number of trials.
All figures are simulated.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path

from environment import tuners_environment
from kernelwright.api.simulation import loop_in, loop_of
from kernelwright.core import Config, PythonKernel, Target, TorchProblem, Tuner
from kernelwright.core.languages import TILELANG
from kernelwright.evaluators.loop_simulator import simulate
from kernelwright.evaluators.simulated import SimulatedEvaluator
from kernelwright.tuners import catalogue
from kernelwright.tuners.schedule.bounds import interval_bound
from kernelwright.tuners.schedule.climb import ScheduleClimb
from kernelwright.tuners.schedule.graph import Edge, Graph, Operation
from kernelwright.tuners.schedule.priorities import RandomKeys, key_space
from kernelwright.tuners.schedule.space import ScheduleSpace

ITERATIONS = 64
LIMITS = {"copy": 1, "tensor": 1, "vector": 2}
PROBLEM = TorchProblem("loop", "loop", "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...")
KERNEL = PythonKernel(TILELANG, Target.CUDA, "", "loop")


def random_graph(seed: int, operations: int) -> Graph:
    """Return a connected loop with two recurrences; each operation takes one resource for one to three cycles."""
    rng = random.Random(seed)
    nodes = [
        Operation(f"N{i}", rng.randint(1, 6), {rng.choice(list(LIMITS)): (1,) * rng.randint(1, 3)})
        for i in range(operations)
    ]
    edges = [
        Edge(nodes[source].name, nodes[target].name, nodes[source].latency)
        for target in range(1, operations)
        for source in rng.sample(range(target), min(target, rng.randint(1, 2)))
    ]
    for _ in range(2):
        first, second = sorted(rng.sample(range(operations), 2))
        edges.append(Edge(nodes[second].name, nodes[first].name, nodes[second].latency, rng.randint(1, 3)))
    return Graph(tuple(nodes), tuple(edges), LIMITS)


def searched(graph: Graph, tuner: Tuner, space: ScheduleSpace, trials: int) -> tuple[float, int]:
    """Return the smallest interval that the simulator saw, and the trial that had it."""
    evaluator = SimulatedEvaluator(lambda config: loop_in(space, config, ITERATIONS))
    best, at = float("inf"), 0
    for trial in range(1, trials + 1):
        if not (configs := tuner.ask(1)):
            break
        (evaluation,) = evaluator.evaluate(PROBLEM, KERNEL, configs)
        tuner.tell(configs[0], evaluation)
        if evaluation.ok:
            loop = loop_of(graph, *space.schedule_of(configs[0]), ITERATIONS)
            if (interval := simulate(loop).interval) < best:
                best, at = interval, trial
    return best, at


def tuners(space: ScheduleSpace, start: Config, seed: int) -> dict[str, Tuner]:
    """Return all that are compared, by name."""
    keys = key_space(space)
    return {
        "climb": ScheduleClimb(space, seed, [start]),
        "random moves": ScheduleClimb(space, seed, [start], greedy=False),
        **{f"keys: {name}": RandomKeys(catalogue.create(name, keys, seed), space) for name in ("portfolio", "random")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=10)
    parser.add_argument("--operations", type=int, default=12)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for seed in range(options.graphs):
        graph = random_graph(seed, options.operations)
        space = ScheduleSpace(lambda tiles, graph=graph: graph)
        schedule, longest = graph.sequential()
        row = {"graph": seed, "bound": interval_bound(graph), "sequential": longest}
        for name, tuner in tuners(space, space.config(Config(), schedule, longest), seed).items():
            began = time.perf_counter()
            best, trial = searched(graph, tuner, space, options.trials)
            row[name] = {"interval": round(best, 2), "trial": trial, "seconds": round(time.perf_counter() - began, 2)}
        rows.append(row)
        shown = ", ".join(f"{n} {v['interval']:g} (trial {v['trial']})" for n, v in row.items() if isinstance(v, dict))
        print(f"graph {seed}: bound {row['bound']}, sequential {longest}; {shown}", flush=True)
    for name in [name for name, value in rows[0].items() if isinstance(value, dict)]:
        reached = sum(row[name]["interval"] <= row["bound"] for row in rows)
        near = sum(row[name]["interval"] <= row["bound"] + 1 for row in rows)
        print(f"{name}: at the bound {reached} of {len(rows)}, within one cycle {near} of {len(rows)}")
    if options.json:
        record = {"simulated": True, "trials": options.trials, **tuners_environment(), "graphs": rows}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
