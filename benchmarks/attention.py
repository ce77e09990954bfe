"""Searches schedules of attention on a GPU: tuners at equal budget over five seeds, and other ways to the same.

    python benchmarks/attention.py [--problem long] [--trials 50] [--seeds 5] [--json FILE]

These are automatic pipelining, at the same tiles with 0 to 3 stages, all of them, and ping_pong.py with all its
parameters. Every figure is a speedup over
torch's scaled_dot_product_attention, timed interleaved with it, so that runs can be compared. Needs a GPU; with
--simulate the tuners alone run in the simulator, and every figure says so.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from environment import tuners_environment
from kernelwright import AttentionConfig, ScheduleOptimizer, tune
from kernelwright.corpus.attention import KERNEL, PROBLEM

PROBLEMS: dict[str, dict[str, Any]] = {
    "default": {"num_heads": 32, "seq_len_q": 512, "head_dim": 64},
    "long": {"num_heads": 32, "seq_len_q": 4096, "head_dim": 128},
    "causal": {"batch_size": 4, "num_heads": 16, "seq_len_q": 2048, "head_dim": 128, "causal": True},
}
"""By the problem's workloads."""
TUNERS = ("schedule", "random_moves", "portfolio")
TILES = {"BLOCK_M": [64, 128, 192], "BLOCK_N": [64, 96, 128], "THREADS": [128, 256, 384]}


def automatic(workload: str, folder: str) -> dict[str, Any]:
    """Return the best of TileLang's own pipelining over the same tiles."""
    params = {**TILES, "AUTOMATIC": [True], "NUM_STAGES": [0, 1, 2, 3]}
    return tuned(KERNEL, workload, folder, params=params, constraint=("THREADS == 2 * BLOCK_M",))


def tuned(kernel: Path, workload: str, folder: str, **space: Any) -> dict[str, Any]:
    """Return the best of all configs of a kernel."""
    began = time.perf_counter()
    result = tune(
        str(kernel), problem=str(PROBLEM), workload=workload, tuner="grid", results=folder, save=False, **space
    )
    best = result.found.best
    speedup = best.speedup.ratio if best and best.speedup else None
    return {
        "config": best.config if best else None, "latency_ms": best.latency_ms if best else None, "speedup": speedup,
        "seconds": round(time.perf_counter() - began, 1), "configs": result.found.progress.trials,
    }  # fmt: skip


def searched(workload: str, tuner: str, seed: int, options: argparse.Namespace, folder: str) -> dict[str, Any]:
    """Return what one search found."""
    config = AttentionConfig(
        **PROBLEMS[workload], tuner=tuner, seed=seed, trials=options.trials, simulate=options.simulate, results=folder
    )
    began = time.perf_counter()
    result = ScheduleOptimizer(config).optimize()
    best = result.best
    speedup = best.speedup.ratio if best and best.speedup else None
    return {
        "tuner": tuner, "seed": seed, "simulated": result.simulated, "config": best.config if best else None,
        "latency_ms": best.latency_ms if best else None, "speedup": speedup,
        "iterations": result.iterations, "failed": result.found.progress.failed,
        "seconds": round(time.perf_counter() - began, 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", choices=PROBLEMS, action="append")
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    record: dict[str, Any] = {"simulated": options.simulate, "trials": options.trials, **tuners_environment()}
    for workload in options.problem or PROBLEMS:
        found: dict[str, Any] = {"searches": []}
        record[workload] = found
        with tempfile.TemporaryDirectory() as folder:
            if not options.simulate:
                found["automatic"] = automatic(workload, folder)
                found["ping_pong"] = tuned(KERNEL.with_name("ping_pong.py"), workload, folder)
                for name in ("automatic", "ping_pong"):
                    print(f"{workload}: {name} {found[name]}", flush=True)
            for tuner in TUNERS:
                runs = [searched(workload, tuner, seed, options, folder) for seed in range(options.seeds)]
                found["searches"] += runs
                times = [run["latency_ms"] for run in runs if run["latency_ms"]]
                speedups = [run["speedup"] for run in runs if run["speedup"]]
                kind = "simulated " if options.simulate else ""
                over = f", {statistics.median(speedups):.3f}x SDPA" if speedups else ""
                middle = f"{statistics.median(times):.4f} ms" if times else "nothing correct"
                print(f"{workload}: {tuner}: {kind}median of {len(times)} seeds {middle}{over}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
