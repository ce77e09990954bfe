"""Climbs schedules of random loops in the simulator, and compares the interval with its proven lower bound.

    python benchmarks/schedules.py [--graphs 10] [--operations 12] [--trials 200] [--json FILE]
    python benchmarks/schedules.py --hard --graphs 3 --operations 16 --seeds 5 --trials 40 [--json FILE]

Every climb starts from the sequential schedule. The lower bound is the larger of the resource bound and the recurrence
bound; a loop need not have a schedule of that interval. The interval is what the simulator measures in the steady
state. Beside it: random moves, and random keys under the portfolio and random search, at the same number of trials.

The operations of hard loops take up to two resources, with gaps, one unit of each; there are recurrences over one and
two iterations about as long as the resource bound; and little room for further versions of results. Of them it also
compares the time of 64 iterations with the best that any tuner found for the loop. All figures are simulated.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from pathlib import Path
from typing import Any

from command import run_benchmark
from environment import tuners_environment
from kernelwright.core import Config, PythonKernel, Target, TorchProblem, Tuner
from kernelwright.core.languages import TILELANG
from kernelwright.evaluators.loop_simulator import simulate
from kernelwright.evaluators.simulated import SimulatedEvaluator
from kernelwright.runtime.attention_result import loop_in, loop_of
from kernelwright.tuners import catalogue
from kernelwright.tuners.schedule.bounds import interval_bound, longest_paths, resource_bound
from kernelwright.tuners.schedule.climb import ScheduleClimb
from kernelwright.tuners.schedule.graph import Edge, Graph, LoopOperation
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
        LoopOperation(f"N{i}", rng.randint(1, 6), {rng.choice(list(LIMITS)): (1,) * rng.randint(1, 3)})
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


def hard_graph(seed: int, operations: int) -> Graph:
    """Return a loop whose resources, recurrences and versions of results are all scarce."""
    rng = random.Random(seed)
    limits = dict.fromkeys(LIMITS, 1)
    nodes = []
    for i in range(operations):
        first, second = rng.sample(list(limits), 2)
        uses = {first: rng.choice([(1,), (1, 1), (1, 0, 1), (1, 1, 1), (1, 0, 0, 1)])}
        if rng.random() < 0.3:
            uses[second] = rng.choice([(1,), (0, 1), (0, 0, 1)])
        nodes.append(LoopOperation(f"N{i}", rng.randint(2, 7), uses, rng.randint(1, 4)))
    edges = [
        Edge(nodes[source].name, nodes[target].name, nodes[source].latency)
        for target in range(1, operations)
        for source in rng.sample(range(max(0, target - 8), target), min(target, rng.randint(1, 2)))
    ]
    forward = Graph(tuple(nodes), tuple(edges), limits)
    bound = resource_bound(forward)
    paths = longest_paths(forward, 1)
    assert paths is not None
    for distance in (1, 2, 1, 2):
        drawn = [sorted(rng.sample(range(operations), 2)) for _ in range(40)]
        # The longest way round that leaves the resources the bound.
        ways = [(paths[a, b] + nodes[b].latency, a, b) for a, b in drawn if paths[a, b] > 0]
        _, a, b = max((way for way in ways if way[0] <= bound * distance), default=min(ways))
        edges.append(Edge(nodes[b].name, nodes[a].name, nodes[b].latency, distance))
    room = round(1.25 * sum(node.buffer_bytes for node in nodes))
    return Graph(tuple(nodes), tuple(edges), limits, buffer_limit=room)


def searched(graph: Graph, tuner: Tuner, space: ScheduleSpace, trials: int) -> tuple[float, int, float]:
    """Return the smallest interval that the simulator saw, the trial that had it, and the least milliseconds."""
    evaluator = SimulatedEvaluator(lambda config: loop_in(space, config, ITERATIONS))
    best, at, least = float("inf"), 0, float("inf")
    for trial in range(1, trials + 1):
        if not (configs := tuner.ask(1)):
            break
        (evaluation,) = evaluator.evaluate(PROBLEM, KERNEL, configs)
        tuner.tell(configs[0], evaluation)
        if evaluation.latency_ms is not None:
            least = min(least, evaluation.latency_ms)
            loop = loop_of(graph, *space.schedule_of(configs[0]), ITERATIONS)
            if (interval := simulate(loop).interval) < best:
                best, at = interval, trial
    return best, at, least


def tuners(space: ScheduleSpace, start: Config, seed: int) -> dict[str, Tuner]:
    """Return all that are compared, by name."""
    keys = key_space(space)
    return {
        "climb": ScheduleClimb(space, seed, [start]),
        "random moves": ScheduleClimb(space, seed, [start], greedy=False),
        **{
            f"keys: {name}": RandomKeys(catalogue.create_tuner(name, keys, seed), space)
            for name in ("portfolio", "random")
        },
    }


def row_of(graph: Graph, seeds: int, trials: int) -> dict[str, Any]:
    """Return what each tuner finds for a loop: lists by seed."""
    space = ScheduleSpace(lambda tiles: graph)
    schedule, longest = graph.sequential()
    start = space.config(Config(), schedule, longest)
    found: dict[str, Any] = {}
    for seed in range(seeds):
        for name, tuner in tuners(space, start, seed).items():
            began = time.process_time()
            best, trial, least = searched(graph, tuner, space, trials)
            entry = found.setdefault(name, {"interval": [], "trial": [], "time": [], "cpu_seconds": []})
            spent = round(time.process_time() - began, 2)
            for key, value in zip(entry, (round(best, 2), trial, least, spent), strict=True):
                entry[key].append(value)
    shortest = min(min(item["time"]) for item in found.values())
    for entry in found.values():
        entry["time_over_best"] = [round(value / shortest, 4) for value in entry.pop("time")]
    return {"bound": interval_bound(graph), "sequential": longest, "tuners": found}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return each tuner's figures over all loops and seeds."""
    said = {}
    for name in rows[0]["tuners"]:
        intervals = [(row["bound"], item) for row in rows for item in row["tuners"][name]["interval"]]
        over = [item for row in rows for item in row["tuners"][name]["time_over_best"]]
        said[name] = {
            "runs": len(intervals),
            "at_bound": sum(interval <= bound for bound, interval in intervals),
            "within_one_cycle": sum(interval <= bound + 1 for bound, interval in intervals),
            "mean_time_over_best": round(statistics.fmean(over), 4),
            "worst_time_over_best": max(over),
        }
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hard", action="store_true", help="loops with scarce resources")
    parser.add_argument("--graphs", type=int, default=10)
    parser.add_argument("--operations", type=int, default=12)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for number in range(options.graphs):
        graph = hard_graph(number, options.operations) if options.hard else random_graph(number, options.operations)
        rows.append(row_of(graph, options.seeds, options.trials))
        row = rows[-1]
        shown = ", ".join(f"{name} {tuner['interval']}" for name, tuner in row["tuners"].items())
        print(f"loop {number}: bound {row['bound']}, sequential {row['sequential']}; {shown}", flush=True)
        if options.json:
            record = {"simulated": True, "hard": options.hard, "trials": options.trials, "seeds": options.seeds}
            record |= {**tuners_environment(), "summary": summary(rows), "graphs": rows}
            options.json.write_text(json.dumps(record, indent=1) + "\n")
    for name, said in summary(rows).items():
        print(f"{name}: {said}")


if __name__ == "__main__":
    run_benchmark(main)
