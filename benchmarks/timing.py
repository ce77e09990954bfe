"""Measures the reliability of timings, and the cost of an evaluation.

    python benchmarks/timing.py [--device cuda|cpu] [--part agreement,repeatability,throughput,search] [--json FILE]

agreement      the clock's median of library kernels over the profiler's time of the same kernels (a GPU only);
               within 2 % is required above 20 us
repeatability  evaluations of one kernel, each in fresh processes with new seeds: the median absolute deviation over the
               median, of the kernel's time, eager's and the speedup; within 1 % is required
throughput     full evaluations of distinct small kernels that are written from a template; 40 a minute are asked on an
               H200, with the time of each stage
search         evaluations of one small kernel's configs as in a search, compiled ahead; 120 a minute are asked
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from command import run_benchmark
from kernelwright.core import Config, Evaluation, Kernel, TorchProblem
from kernelwright.core.environment import cores
from kernelwright.core.files import cache_folder
from kernelwright.corpus import find_kernel, find_problem
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import SearchSettings, Settings
from timing_kernels import kernels

PARTS = ("agreement", "repeatability", "throughput", "search")
SAMPLES = 100
LONG_MS = 0.02
"""Kernels above this time in us must agree."""


def spread(values: list[float]) -> float:
    """Median absolute deviation over the median."""
    median = statistics.median(values)
    return statistics.median(abs(value - median) for value in values) / median


def library_calls() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield calls of torch that run one kernel each, from some microseconds to some milliseconds."""
    import torch

    def randn(*shape: int, dtype: Any = torch.float32) -> Any:
        return torch.randn(*shape, device="cuda", dtype=dtype)

    for rows in (64, 1024, 4096, 16384):
        x, y = randn(rows, 4096), torch.empty(rows, 4096, device="cuda")
        yield f"relu {rows}x4096", lambda x=x, y=y: torch.clamp_min(x, 0, out=y)  # type: ignore[misc]
        yield f"softmax {rows}x4096", lambda x=x: torch.softmax(x, -1)  # type: ignore[misc]
    for n in (512, 1024, 2048, 4096):
        for dtype in (torch.float32, torch.float16):
            x, w = randn(n, n, dtype=dtype), randn(n, n, dtype=dtype)
            yield f"matmul {n} {str(dtype).removeprefix('torch.')}", lambda x=x, w=w: x @ w  # type: ignore[misc]


def both_ways(clock: Any, call: Callable[[], object]) -> tuple[Any, list[float]]:
    """Return the clock's samples, and the profiler's times of the same calls: the GPU's clocks may change between
    calls."""
    from kernelwright.evaluators.profiling.event_overhead import kernel_times_ms
    from kernelwright.evaluators.timing.clock import always

    taken: list[Any] = []
    times = kernel_times_ms(lambda: taken.append(clock.sample(always(call), SAMPLES)), clock)
    return taken[0], times


def agreement() -> dict[str, Any]:
    """Compare the clock with the profiler, in this process."""
    from kernelwright.evaluators.profiling.event_overhead import event_overhead_ms
    from kernelwright.evaluators.timing.clock import Clock, always

    clock = Clock("cuda")
    gpu: Any = clock._gpu
    start = time.perf_counter()
    for _ in range(SAMPLES):
        gpu.reset_persisting()
    reset_us = (time.perf_counter() - start) / SAMPLES * 1e6
    flush_ms = statistics.median(clock.sample(always(gpu.flush), SAMPLES).times_ms)
    empty_ms = clock.empty_ms()
    overhead_ms = event_overhead_ms(clock)
    metrics: dict[str, Any] = {
        "flush_kernel": clock.flush_kernel,
        "flush_us": round(flush_ms * 1e3, 2),
        "reset_persisting_us": round(reset_us, 2),
        "event_overhead_us": round(overhead_ms * 1e3, 3),
        "empty_us": round(empty_ms * 1e3, 2),
        "empty_us_after_profiler": round(clock.empty_ms() * 1e3, 2),
        "event_overhead_us_again": round(event_overhead_ms(clock) * 1e3, 3),
    }
    print(", ".join(f"{key} {value}" for key, value in metrics.items()), flush=True)
    rows: list[dict[str, Any]] = []
    for name, call in library_calls():
        taken, times = both_ways(clock, call)
        profiler_ms = statistics.median(sum(some) for some in _split(times, SAMPLES))
        events_ms = statistics.median(taken.times_ms) - overhead_ms
        gap_ms = statistics.median(host - event for host, event in zip(taken.host_ms, taken.times_ms, strict=True))
        rows.append(
            {
                "call": name,
                "kernels": round(len(times) / SAMPLES, 2),
                "profiler_us": round(profiler_ms * 1e3, 2),
                "events_us": round(events_ms * 1e3, 2),
                "ratio": round(events_ms / profiler_ms, 4),
                "asked": profiler_ms > LONG_MS,
                "hidden_us": round((gap_ms - empty_ms) * 1e3, 1),
            }
        )
        print(", ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    worst = max((abs(row["ratio"] - 1) for row in rows if row["asked"]), default=None)
    print(f"agreement above 20 us: within {worst:.2%} (2 % is required)" if worst is not None else "no long kernel")
    return {**metrics, "rows": rows, "worst": worst}


def _split(times: list[float], calls: int) -> list[list[float]]:
    """Split the times into the kernels of each call; all together when they do not divide."""
    if not times or len(times) % calls:
        return [[sum(times) / calls]]
    each = len(times) // calls
    return [times[i : i + each] for i in range(0, len(times), each)]


def evaluate(evaluator: LocalEvaluator, problem: TorchProblem, kernel: Kernel) -> tuple[Evaluation, float]:
    """Do one full evaluation in a fresh process; return it and its seconds."""
    start = time.perf_counter()
    (evaluation,) = evaluator.evaluate(problem, kernel, [Config()])
    return evaluation, time.perf_counter() - start


def repeatability(device: str, name: str, repeats: int) -> dict[str, Any]:
    """Evaluate one kernel of the corpus repeatedly."""
    problem = find_problem(name).read().at("default" if device.startswith("cuda") else "cpu")
    kernel = find_kernel(name, "triton" if device.startswith("cuda") else "tilelang_cpu").read()
    found = []
    with LocalEvaluator(device, memory=cache_folder()) as evaluator:
        for _ in range(repeats):
            evaluator.processes.forget_reference()
            evaluation, seconds = evaluate(evaluator, problem, kernel)
            if not (evaluation.measurement and evaluation.reference and evaluation.speedup):
                print(f"{name}: {evaluation.status}, {evaluation.message}", flush=True)
                continue
            found.append(evaluation)
            print(
                f"{name}: {evaluation.measurement.median_ms:.5f} ms, eager {evaluation.reference.median_ms:.5f} ms, "
                f"{evaluation.speedup}, {len(evaluation.measurement.samples_ms)} samples, {seconds:.2f} s, "
                f"{evaluation.telemetry}{', disturbed' if evaluation.contention is not None else ''}",
                flush=True,
            )
    if not found:
        return {"kernel": name, "evaluations": 0}
    metrics = {
        "environment": found[0].environment,
        "kernel": name,
        "evaluations": len(found),
        "disturbed": sum(e.contention is not None for e in found),
        "latency_spread": round(spread([e.measurement.median_ms for e in found if e.measurement]), 5),
        "eager_spread": round(spread([e.reference.median_ms for e in found if e.reference]), 5),
        "speedup_spread": round(spread([e.speedup.ratio for e in found if e.speedup]), 5),
    }
    shown = (f"{key} {value}" for key, value in metrics.items() if key != "environment")
    print(", ".join(shown) + " (0.01 is required)", flush=True)
    return metrics


def throughput(device: str, count: int) -> dict[str, Any]:
    """Evaluate distinct kernels once each; the first, which starts the processes, is listed separately."""
    seconds: list[float] = []
    stages: dict[str, list[float]] = {}
    failed = 0
    with LocalEvaluator(device, memory=cache_folder()) as evaluator:
        todo = kernels(device, count + 1)
        evaluation, first_s = evaluate(evaluator, *next(todo))
        print(f"first: {evaluation.status} {evaluation.message}, {first_s:.2f} s", flush=True)
        for problem, kernel in todo:
            evaluation, wall = evaluate(evaluator, problem, kernel)
            failed += not evaluation.ok
            seconds.append(wall)
            for stage, spent in stage_seconds(evaluation, wall).items():
                stages.setdefault(stage, []).append(spent)
            print(
                f"{problem.id}: {evaluation.status} {evaluation.message} {evaluation.speedup}, {wall:.2f} s", flush=True
            )
    metrics = {
        "evaluations": len(seconds),
        "not_ok": failed,
        "per_minute": round(60 * len(seconds) / sum(seconds), 1),
        "first_s": round(first_s, 2),
        "median_s": round(statistics.median(seconds), 3),
        "stages": {stage: round(statistics.fmean(spent), 4) for stage, spent in stages.items()},
    }
    print(f"{metrics['per_minute']} evaluations a minute (40 are asked on an H200); seconds of one, on average:")
    for stage, spent in metrics["stages"].items():  # type: ignore[attr-defined]
        print(f"  {stage:<24} {spent:8.4f}")
    return metrics


def search(device: str, name: str, count: int) -> dict[str, Any]:
    """Evaluate configs of one kernel of the corpus as a search does; the rate is that after the first result."""
    workload, backend = ("default", "triton") if device.startswith("cuda") else ("cpu", "tilelang_cpu")
    problem, kernel = find_problem(name).read().at(workload), find_kernel(name, backend).read()
    space = kernel.space(kernel.declared_values, kernel.declared_constraints)
    configs = list(itertools.islice(space, count))
    settings = Settings(search=SearchSettings(compilers=cores(), window=4 * cores()))
    with LocalEvaluator(device, settings, memory=cache_folder()) as evaluator:
        start, found, ends = time.perf_counter(), [], []
        for evaluation in evaluator.evaluate(problem, kernel, configs):
            found.append(evaluation)
            ends.append(time.perf_counter())
    metrics = {
        "kernel": name,
        "evaluations": len(found),
        "not_ok": sum(not item.ok for item in found),
        "first_s": round(ends[0] - start, 2),
        "seconds": round(ends[-1] - start, 2),
        "per_minute": round(60 * (len(found) - 1) / (ends[-1] - ends[0]), 1),
    }
    print(f"search: {', '.join(f'{key} {value}' for key, value in metrics.items())} (120 a minute are asked)")
    return metrics


def stage_seconds(evaluation: Evaluation, wall: float) -> dict[str, float]:
    """Return the seconds per stage: the evaluation's own record, and the rest."""
    return {**evaluation.stages, "all the rest": wall - sum(evaluation.stages.values())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--part", default=",".join(PARTS), help="which parts, with commas")
    parser.add_argument("--kernel", default="1_19", help="of the corpus, for repeatability and search")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--count", type=int, default=24, help="kernels for throughput, configs for search")
    parser.add_argument("--json", type=Path, help="write the metrics to this file too")
    options = parser.parse_args()
    parts = options.part.split(",")
    found: dict[str, Any] = {"device": options.device}
    if parts == ["agreement"]:
        found["agreement"] = agreement()
    elif "agreement" in parts and options.device.startswith("cuda"):
        found["agreement"] = _in_own_process()
    if "repeatability" in parts:
        found["repeatability"] = repeatability(options.device, options.kernel, options.repeats)
    if "throughput" in parts:
        found["throughput"] = throughput(options.device, options.count)
    if "search" in parts:
        found["search"] = search(options.device, options.kernel, options.count)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


def _in_own_process() -> Any:
    """Run in a separate process: this part takes memory of the device, and leaves the profiler loaded."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agreement.json"
        subprocess.run([sys.executable, __file__, "--part", "agreement", "--json", str(path)], check=False)
        return json.loads(path.read_text())["agreement"] if path.exists() else None


if __name__ == "__main__":
    run_benchmark(main)
