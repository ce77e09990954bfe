"""Measures a tuner's own time: seconds in ask and tell, per trial, on a large space.

    python benchmarks/tuner_overhead.py [--trials 500] [--json FILE] [TUNER ...]

The space has 28,656 configs of eight parameters; times come from a formula, without delay. Each trial is one ask(1)
and one tell, as in a search.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

from command import run_benchmark
from environment import tuners_environment
from kernelwright.core import Config, Correctness, Evaluation, Measurement, Origin, SearchSpace, Status
from kernelwright.tuners import catalogue

SPACE = SearchSpace.of(
    {
        "BLOCK_M": [16, 32, 64, 128, 256],
        "BLOCK_N": [16, 32, 64, 128, 256],
        "BLOCK_K": [16, 32, 64, 128],
        "GROUP": [1, 2, 4, 8],
        "WARPS": [2, 4, 8],
        "STAGES": [1, 2, 3, 4, 5],
        "SPLIT": [1, 2, 4],
        "VECTOR": [1, 2],
    },
    ["BLOCK_M * BLOCK_N <= WARPS * 32 * 192", "(BLOCK_M + BLOCK_N) * BLOCK_K * 2 * STAGES <= 163840"],
)
PASSED = Correctness(seeds=(0,), max_abs_error=0, max_rel_error=0, tolerance=0, passed=True)


def evaluation(config: Config) -> Evaluation:
    """Return a made-up evaluation: a rugged bowl; one config in twenty fails."""
    values = [math.log2(float(value) + 1) for value in config.values()]
    noise = hash(tuple(values)) % 1000 / 1000
    if noise < 0.05:
        return Evaluation(
            status=Status.TIMEOUT, kernel_digest="k", config=dict(config), origin=Origin.SIMULATED, message="too slow"
        )
    cost = 1 + sum((value - 4.2) ** 2 for value in values[:3]) + abs(values[0] - values[4] - 3) + 0.2 * noise
    return Evaluation(
        status=Status.OK,
        kernel_digest="k",
        config=dict(config),
        origin=Origin.SIMULATED,
        correctness=PASSED,
        measurement=Measurement(samples_ms=(cost,)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tuners", nargs="*", default=catalogue.names(), metavar="TUNER")
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(f"{SPACE.size} configs, {options.trials} trials")
    metrics = {}
    for name in options.tuners:
        tuner = catalogue.create_tuner(name, SPACE)
        spent, slowest = 0.0, 0.0
        for _ in range(options.trials):
            start = time.perf_counter()
            (config,) = tuner.ask(1)
            asked = time.perf_counter() - start
            result = evaluation(config)
            start = time.perf_counter()
            tuner.tell(config, result)
            total = asked + time.perf_counter() - start
            spent, slowest = spent + total, max(slowest, total)
        metrics[name] = {"ms_per_trial": 1e3 * spent / options.trials, "slowest_ms": 1e3 * slowest}
        print(
            f"{name:12s} {1e3 * spent / options.trials:7.2f} ms per trial, slowest {1e3 * slowest:7.1f} ms", flush=True
        )
    if options.json:
        record = {
            "configs": SPACE.size,
            "trials": options.trials,
            **tuners_environment(),
            "tuners": metrics,
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    run_benchmark(main)
