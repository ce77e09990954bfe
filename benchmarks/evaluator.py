"""Measures an evaluation's overhead beyond the kernel itself, and its repeatability.

    python benchmarks/evaluator.py [--device cpu] [--backend tilelang_cpu] [--repeats 10] [--json FILE] [KERNEL ...]

Overhead is the wall time of an evaluation on a warm server less the kernel's own needs: its compile, its calls and
the reference's. Spread is the median absolute deviation over the median of separate evaluations, each in a fresh
process with new seeds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

from command import run_benchmark
from kernelwright.core import Config, Evaluation
from kernelwright.core.files import cache_folder
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.runtime.devices import choose_device
from kernelwright.runtime.jobs import find_job
from kernelwright.runtime.options.groups import ProblemOptions


def spread(values: list[float]) -> float:
    """Median absolute deviation over the median."""
    median = statistics.median(values)
    return statistics.median(abs(value - median) for value in values) / median


def own_time_s(evaluation: Evaluation) -> float:
    """Return the seconds of compiling, the kernel's calls and the reference's calls."""
    timed = [m for m in (evaluation.measurement, evaluation.reference) if m]
    calls = sum(sum(m.samples_ms) + m.warmup * m.median_ms for m in timed) / 1e3
    return (evaluation.compile_s or 0.0) + calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", default=["1_94", "1_23", "1_1", "2_10"], metavar="KERNEL")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backend")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--json", type=Path, help="write the metrics to this file too")
    options = parser.parse_args()
    request = ProblemOptions(device=options.device, backend=options.backend)
    device = choose_device(request.device, request.backend)
    rows = []
    with LocalEvaluator(device, memory=cache_folder()) as evaluator:
        for name in options.kernels:
            job = find_job(request, name, device)
            environment = evaluator.environment(job.problem)
            evaluations, overheads = [], []
            for _ in range(options.repeats):
                start = time.perf_counter()
                (evaluation,) = evaluator.evaluate(job.problem, job.kernel, [Config()])
                overheads.append(time.perf_counter() - start - own_time_s(evaluation))
                evaluations.append(evaluation)
            timed = [e for e in evaluations if e.measurement and e.reference and e.speedup]
            latencies = [e.measurement.median_ms for e in timed if e.measurement]
            references = [e.reference.median_ms for e in timed if e.reference]
            speedups = [e.speedup.ratio for e in timed if e.speedup]
            rows.append(
                {
                    "kernel": job.problem.id,
                    "backend": job.backend,
                    "workload": job.problem.workload,
                    "evaluations": len(timed),
                    "disturbed": sum(e.contention is not None for e in timed),
                    "overhead_s": round(statistics.median(overheads), 3),
                    "compile_s": round(statistics.median(e.compile_s or 0.0 for e in timed), 3),
                    "latency_ms": round(statistics.median(latencies), 4),
                    "latency_spread": round(spread(latencies), 4),
                    "reference_ms": round(statistics.median(references), 4),
                    "reference_spread": round(spread(references), 4),
                    "speedup": round(statistics.median(speedups), 4),
                    "speedup_spread": round(spread(speedups), 4),
                }
            )
            print(", ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    print(json.dumps(environment))
    if options.json:
        options.json.write_text(json.dumps({"environment": environment, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    run_benchmark(main)
