"""What a session saves: evaluations as calls that each start their servers, and in one session that keeps them.

    python benchmarks/session.py [--kernel level1/1_19] [--workload tiny] [--calls 50] [--device auto] [--thorough]
                                 [--json FILE]

Both ways take turns, one call each, so that other load meets both; the session's servers start with its first call,
which counts. Evaluations are quick ones by default: a thorough one on a CPU waits until nobody else uses it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kernelwright
from command import run_benchmark
from kernelwright.runtime.devices import choose_device, device_label


def seconds(evaluate: Callable[..., Any], arguments: argparse.Namespace, **options: Any) -> float:
    """Return how long one evaluation took; the kernel must be correct."""
    start = time.perf_counter()
    verdict = evaluate(arguments.kernel, workload=arguments.workload, quick=not arguments.thorough, **options)
    spent = time.perf_counter() - start
    if not verdict.correct:
        raise SystemExit(f"{arguments.kernel} is not correct: {verdict.evaluation.message}")
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="level1/1_19")
    parser.add_argument("--workload", default="tiny")
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--thorough", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    alone: list[float] = []
    kept: list[float] = []
    with kernelwright.Session(device=device) as session:
        for number in range(arguments.calls):
            alone.append(seconds(kernelwright.evaluate, arguments, device=device))
            kept.append(seconds(session.evaluate, arguments))
            print(f"call {number + 1}: {alone[-1]:.2f} s by itself, {kept[-1]:.2f} s in the session", flush=True)
    ratio = sum(alone) / sum(kept)
    later = statistics.median(alone) / statistics.median(kept)
    print(f"{arguments.calls} evaluations: {sum(alone):.1f} s as calls, {sum(kept):.1f} s in a session: {ratio:.2f} x")
    print(f"medians {statistics.median(alone):.2f} s and {statistics.median(kept):.2f} s: {later:.2f} x")
    if arguments.json:
        found = {
            "device": device_label(device),
            "kernel": arguments.kernel,
            "workload": arguments.workload,
            "quick": not arguments.thorough,
            "load_average": round(os.getloadavg()[0], 1),
            "calls_s": [round(seconds, 3) for seconds in alone],
            "session_s": [round(seconds, 3) for seconds in kept],
            "ratio": round(ratio, 2),
            "ratio_of_medians": round(later, 2),
        }
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    run_benchmark(main)
