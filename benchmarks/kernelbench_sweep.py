"""Evaluates every problem of a KernelBench checkout with its own reference as the candidate.

    python benchmarks/kernelbench_sweep.py --dataset DIR [--levels 1,2,3] [--precisions fp32,default] [--device cuda]
                                           [--shard 1/1] [--output FILE.jsonl] [--resume] [--limit-s 600]

Each should end as ok at a speedup of 1: anything else is a limit of the evaluator. One JSON line per problem holds its
id, precision, status, message, peak device memory in bytes, whether it was replayed, times in ms, speedup and seconds.
A problem that fails or takes longer than the limit costs only itself. The exit code is 1 when a problem was not ok. Two
GPUs share the work as `--shard 1/2` and `--shard 2/2`, each process with an output of its own.
"""

from __future__ import annotations

import argparse
import re
import signal
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from command import run_benchmark
from kernelwright.cli.execution import guarded
from kernelwright.core import Config, Evaluation, OptionError, PythonKernel
from kernelwright.core.files import cache_folder
from kernelwright.core.text import first_line, gigabytes
from kernelwright.corpus import ProblemFile
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import AllowTorch, Precision, Sampling, Settings
from kernelwright.runtime.devices import choose_device
from problem_rows import Rows, problems_of, share_of

PRECISIONS = {
    str(item): Settings(
        allow_torch=AllowTorch.ALL, precision=item, sampling=Sampling(seconds=0.3), second_workload=False
    )
    for item in Precision
}
"""The settings of each precision: short samples, since statuses and memory are what is looked for."""
IMPORTS = {"cpu": "import tilelang.cpu.language", "cuda": "import triton"}
"""A kernel's imports tell its language; nothing is written in it here."""


class OutOfTimeError(Exception):
    """A problem took longer than the limit."""


def kernel_of(problem: ProblemFile, device: str) -> PythonKernel:
    """Return the problem's reference as a candidate."""
    source = re.sub(r"\bModel\b", "ModelNew", problem.read().source)
    return PythonKernel.parse(f"{source}\n\n{IMPORTS[device.partition(':')[0]]}\n", problem.name)


def evaluate(evaluator: LocalEvaluator, problem: ProblemFile, limit_s: int) -> dict[str, Any]:
    """Return the row of one problem, whatever happens."""
    start = time.perf_counter()
    signal.alarm(limit_s)
    try:
        (found,) = evaluator.evaluate(problem.read(), kernel_of(problem, evaluator.device), [Config()])
        row = metrics(found)
    except Exception as error:  # such as a reference that fails; the next problem is not concerned
        row = {"status": type(error).__name__, "message": str(error)}
    finally:
        signal.alarm(0)
    return {**row, "seconds": round(time.perf_counter() - start, 1)}


def metrics(found: Evaluation) -> dict[str, Any]:
    """Return an evaluation's fields of a row."""
    numbers = found.metrics()
    return {
        "status": str(found.status),
        "message": found.message,
        "peak_memory_bytes": found.peak_memory_bytes,
        "replayed": found.replay.replayed if found.replay else None,
        "latency_ms": numbers.latency_ms,
        "reference_ms": numbers.reference_ms,
        "speedup": numbers.speedup,
    }


def sweep(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Evaluate all problems that are not done and return the rows of all, in the order of the file."""
    precisions = options.precisions.split(",")
    if unknown := sorted(set(precisions) - PRECISIONS.keys()):
        raise OptionError(f"no precision {', '.join(unknown)}", f"there are {', '.join(PRECISIONS)}")
    device = choose_device(options.device)
    problems = share_of(problems_of(options.dataset, options.levels), options.shard)
    rows = Rows(options.output, options.resume)
    done = {(row["id"], row["precision"]) for row in rows.rows}
    for precision in precisions:
        left = [problem for problem in problems if (problem.id, precision) not in done]
        evaluator: LocalEvaluator | None = None
        try:
            for number, problem in enumerate(left, start=1):
                settings = PRECISIONS[precision].quick() if options.quick else PRECISIONS[precision]
                evaluator = evaluator or LocalEvaluator(device, settings, cache_folder())
                row = {"id": problem.id, "precision": precision, **evaluate(evaluator, problem, options.limit_s)}
                rows.add(row)
                print(f"{number}/{len(left)} {describe(row)}", flush=True)
                if "peak_memory_bytes" not in row:  # no evaluation came of it: its processes may be stuck
                    evaluator.close()
                    evaluator = None
        finally:
            if evaluator is not None:
                evaluator.close()
    return rows.rows


def describe(row: dict[str, Any]) -> str:
    """Return a row as one line of text."""
    peak = gigabytes(row["peak_memory_bytes"]) if row.get("peak_memory_bytes") else "-"
    speedup = f"{row['speedup']:.3f}x" if row.get("speedup") else "-"
    why = f"  {first_line(row['message'], 100)}" if row["status"] != "ok" else ""
    return (
        f"{row['id']:<14} {row['precision']:<5} {row['status']:<14} {peak:>9} {speedup:>7} {row['seconds']:6.1f} s{why}"
    )


def summary(rows: list[dict[str, Any]]) -> str:
    """Return the counts of statuses, the largest peak, and each problem that was not ok."""
    refused = [row for row in rows if row["status"] != "ok"]
    counts = Counter((row["precision"], row["status"]) for row in rows)
    lines = [f"{precision} {status}: {count}" for (precision, status), count in sorted(counts.items())]
    peaks = [(row["peak_memory_bytes"], row["id"]) for row in rows if row.get("peak_memory_bytes")]
    if peaks:
        lines.append(f"largest peak: {gigabytes(max(peaks)[0])} ({max(peaks)[1]})")
    return "\n".join([*lines, *(["not ok:"] if refused else []), *map(describe, refused)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", type=Path, required=True, help="a KernelBench checkout")
    parser.add_argument("--levels", default="1,2,3")
    parser.add_argument("--precisions", default="fp32,default", help="what the reference computes in")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shard", default="1/1", help="K/N: the K-th of N parts of the problems")
    parser.add_argument("--output", type=Path, default=Path("kernelbench_sweep.jsonl"))
    parser.add_argument("--resume", action="store_true", help="leave out what the output has")
    parser.add_argument("--limit-s", type=int, default=600, help="seconds for one problem")
    parser.add_argument("--quick", action="store_true", help="a first look: timings of 0.1 s, and no proof on a CPU")
    options = parser.parse_args()
    if options.limit_s < 1:
        parser.error("--limit-s: at least one second")

    def out_of_time(number: int, frame: FrameType | None) -> None:
        raise OutOfTimeError(f"not done after {options.limit_s} s")

    def work() -> int:
        rows = sweep(options)
        print(summary(rows))
        return int(any(row["status"] != "ok" for row in rows))

    signal.signal(signal.SIGALRM, out_of_time)
    return guarded(work, f"interrupted; --resume goes on with {options.output}")


if __name__ == "__main__":
    run_benchmark(main)
