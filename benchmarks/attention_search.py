"""Counts the simulated trials that searches of attention schedules take, shape by shape, one trial at a time.

    python benchmarks/attention_search.py [--seeds 8] [--trials 60] [--json FILE]

A search has arrived at its first schedule within 2 % of the best that any tuner and seed found for the shape. Shown are
the median of the trials until then (over the budget where a search does not arrive) and how many seeds arrive. Every
search starts from the sequential schedule. All figures are simulated.
"""

from __future__ import annotations

import argparse
import json
import statistics
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

from command import run_benchmark
from environment import tuners_environment
from kernelwright import AttentionConfig, ScheduleOptimizer
from kernelwright.evaluators.simulated import SimulatedEvaluator
from schedules import KERNEL, PROBLEM, tuners

SHAPES = {
    "B1 H32 S512 D64": AttentionConfig(simulate=True),
    "B1 H32 S4096 D128": AttentionConfig(seq_len_q=4096, head_dim=128, simulate=True),
    "B4 H16 S2048 D128 causal": AttentionConfig(
        batch_size=4, num_heads=16, seq_len_q=2048, head_dim=128, causal=True, simulate=True
    ),
}
TUNERS = ("climb", "keys: portfolio", "keys: random")
NEAR = 1.02


def times(shape: str, name: str, seed: int, trials: int) -> list[float]:
    """Return the milliseconds of each trial; infinite for a schedule that is wrong."""
    optimizer = ScheduleOptimizer(SHAPES[shape])
    space = optimizer.space
    start = space.config(space.some_tiles, *space.graph(space.some_tiles).sequential())
    tuner = tuners(space, start, seed)[name]
    evaluator = SimulatedEvaluator(optimizer.loop)
    found: list[float] = []
    while len(found) < trials and (configs := tuner.ask(1)):
        (evaluation,) = evaluator.evaluate(PROBLEM, KERNEL, configs)
        tuner.tell(configs[0], evaluation)
        found.append(evaluation.latency_ms or float("inf"))
    return found


def row_of(searches: list[list[float]], best: float, trials: int) -> dict[str, Any]:
    """Return one tuner's figures for one shape."""
    arrivals = [next((i for i, ms in enumerate(search, 1) if ms <= NEAR * best), trials + 1) for search in searches]
    return {
        "median_trials": statistics.median(arrivals),
        "arrived": sum(at <= trials for at in arrivals),
        "mean_time_over_best": round(statistics.fmean(min(search) for search in searches) / best, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cases = list(product(SHAPES, TUNERS, range(options.seeds)))
    with ProcessPoolExecutor() as pool:
        jobs = [pool.submit(times, *case, options.trials) for case in cases]
        found = {case: job.result() for case, job in zip(cases, jobs, strict=True)}
    table: dict[str, dict[str, Any]] = {}
    for shape in SHAPES:
        best = min(min(ms) for case, ms in found.items() if case[0] == shape)
        table[shape] = {
            name: row_of([found[shape, name, seed] for seed in range(options.seeds)], best, options.trials)
            for name in TUNERS
        }
        print(f"{shape}: best {best:.4f} ms (simulated)")
        for name, row in table[shape].items():
            print(f"  {name}: {row}", flush=True)
    if options.json:
        record = {"simulated": True, "trials": options.trials, "seeds": options.seeds, **tuners_environment()}
        options.json.write_text(json.dumps(record | {"shapes": table}, indent=1) + "\n")


if __name__ == "__main__":
    run_benchmark(main)
