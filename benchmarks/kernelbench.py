"""Optimizes problems of KernelBench, and shows the results against eager PyTorch and torch.compile.

    python benchmarks/kernelbench.py --level 1 [--problems 1-10,19] [--every 3] [--model rules] [--dataset DIR]
        [--backend triton] [--device auto] [--seconds 120] [--trials N] [--shard K/N] [--output FILE.jsonl]
        [--results DIR] [--precision default] [--allow-torch all] [--codes FILE.jsonl] [--keep-codes FILE.jsonl]
        [--resume]

A problem with a shipped kernel of the backend begins with that one; on a GPU another begins with its first kernel, made
of torch.compile's code. `--seconds` and `--trials` limit each problem's run, which begins with the evaluation of its
start: when one is used up, what is under way is finished and checked. Each row is written as its problem ends, and
`--resume` leaves out those that the file has. Several processes share the problems as `--shard 1/2` and `--shard 2/2`,
each with an output of its own; `--show FILE...` prints the table of such files together.

The table ends with fast_p, the share of all problems whose kernel was verified and more than p times as fast, and with
geometric means, medians and the least of the verified ones. torch.compile is timed beside the first kernel and beside
the result, in the same checks; its convolutions are in TF32, as PyTorch has them by default. With `--precision
default` so are those of eager PyTorch and of kernels. `--keep-codes` names a file to which torch.compile's code of each
problem is added. With `--codes` such a file, or one of `first_kernels.py`, is read: code with convolutions serves the
precision and the torch operators that it was made for, other code serves all.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from command import run_benchmark
from kept_codes import keep_code, kept_codes
from kernelwright.commands._optimize import open_optimizer
from kernelwright.commands._optimize.kernel_optimizer import KernelOptimizer
from kernelwright.commands._optimize.settings import SessionSettings
from kernelwright.core import KernelwrightError, TorchProblem
from kernelwright.core.events import ignore
from kernelwright.core.files import cache_folder
from kernelwright.core.text import first_line
from kernelwright.corpus import ProblemFile
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.reference.generated_codes import GeneratedCodes
from kernelwright.evaluators.settings import AllowTorch, Precision, Settings
from kernelwright.runtime.options.groups import RunOptions
from kernelwright.runtime.runtime import Runtime
from problem_rows import Rows, number_of, numbers, problems_of, share_of
from rich.console import Console
from rich.table import Table

FAST = (1.0, 1.5, 2.0)
MEANS: dict[str, Callable[[list[float]], float]] = {
    "geomean": statistics.geometric_mean,
    "median": statistics.median,
    "least": min,
}
WIDTH = 140
"""Characters of a line of the table."""
AGAINST = {
    "speedup": "eager fp32",
    "speedup_default": "eager as it ships",
    "speedup_compile": "torch.compile",
    "first_over_compile": "first over compile",
    "gain": "its first kernel",
}
"""What a row's figures are over."""


def optimizer_of(options: argparse.Namespace) -> AbstractContextManager[KernelOptimizer]:
    """Return what all problems share: the processes of the evaluators, which take seconds to start, among them."""
    run = RunOptions(
        dataset=options.dataset,
        backend=options.backend,
        device=options.device,
        workload=options.workload,
        model=options.model,
        baseline=() if options.no_compile else ("compile",),
        target_speedup=options.target,
        time_limit=options.seconds,
        max_trials=options.trials,
        results=options.results,
        resume=options.resume,
        archive=not options.no_archive,
        precision=options.precision,
        allow_torch=options.allow_torch,
    )
    return open_optimizer(SessionSettings.of(run, Runtime(ignore)), ignore)


def row_of(problem: ProblemFile, optimizer: KernelOptimizer, options: argparse.Namespace) -> dict[str, Any]:
    """Optimize one problem, and keep the code of its first kernel; a failure is a row, too."""
    row: dict[str, Any] = {
        **{"id": problem.id, "name": problem.name, "model": options.model},
        **{"precision": str(options.precision), "allow_torch": str(options.allow_torch)},
    }
    start = time.perf_counter()
    try:
        result = optimizer.optimize(optimizer.job(problem.id))
    except KernelwrightError as error:
        row |= {"status": type(error).__name__, "message": first_line(error)}
    else:
        if options.keep_codes and result.job.first:
            keep_from_cache(result.job.problem, result.outcome.start.environment, options)
        best, first = result.outcome.best.metrics(), result.outcome.start
        row |= {
            "status": "ok" if result.verified else "not verified",
            "message": "" if result.verified else result.outcome.stopped,
            "backend": result.job.backend,
            "workload": result.job.problem.workload,
            "first_kernel": result.job.first,
            "start_ms": first.latency_ms,
            "best_ms": best.latency_ms,
            "reference_ms": best.reference_ms,
            "speedup": best.speedup,
            "speedup_default": best.speedup_default,
            "speedup_compile": best.speedup_compile,
            "first_over_compile": first.metrics().speedup_compile,
            "gain": first.latency_ms / best.latency_ms if first.latency_ms and best.latency_ms else None,
            "beside_compile": result.beside_compile,
            "disturbed": best.contention is not None,
            "turns": len(result.outcome.turns),
            "trials": result.outcome.trials,
            "stopped": result.outcome.stopped,
            "kernel": str(result.kernel) if result.kernel else None,
            "environment": result.outcome.best.environment,
        }
    return {**row, "seconds": round(time.perf_counter() - start, 1)}


def table(rows: list[dict[str, Any]]) -> Table:
    """Return a line per problem, and what they come to."""
    found = Table("problem", "status", *AGAINST.values(), "ms", "turns", "s", title=f"{len(rows)} problems")
    for row in rows:
        figures = [_times(row.get(name)) if row["status"] == "ok" else "" for name in AGAINST]
        best = f"{row['best_ms']:.4g}" if row.get("best_ms") else ""
        status = f"{row['status']}{' (disturbed)' if row.get('disturbed') else ''}"
        found.add_row(row["id"], status, *figures, best, str(row.get("turns", "")), f"{row['seconds']:.0f}")
    found.add_section()
    for least in FAST:
        shares = [fast(rows, name, least) for name in AGAINST]
        found.add_row(f"fast_{least:g}", "", *("" if share is None else f"{share:.2f}" for share in shares))
    for name, of in MEANS.items():
        found.add_row(name, "", *(_times(mean(rows, item, of)) for item in AGAINST))
    return found


def fast(rows: list[dict[str, Any]], name: str, least: float) -> float | None:
    """Return the share of all problems that are verified and more than `least` times as fast; None without a figure."""
    known = _verified(rows, name)
    return sum(item > least for item in known) / len(rows) if known else None


def mean(rows: list[dict[str, Any]], name: str, of: Callable[[list[float]], float]) -> float | None:
    """Return a mean over the verified problems; None where there is no figure."""
    known = _verified(rows, name)
    return of(known) if known else None


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the same as plain data."""
    return {
        "problems": len(rows),
        "verified": sum(row["status"] == "ok" for row in rows),
        "fast": {name: {f"{least:g}": fast(rows, name, least) for least in FAST} for name in AGAINST},
        **{mean_name: {name: mean(rows, name, of) for name in AGAINST} for mean_name, of in MEANS.items()},
    }


def give_to_cache(problems: Sequence[ProblemFile], options: argparse.Namespace) -> None:
    """Give the cache the compiler's code of these problems, as if it had been generated here."""
    settings = settings_of(options)
    kept = kept_codes(options.codes, settings)
    there = [problem.read() for problem in problems if problem.id in kept]
    if not there:
        return
    with LocalEvaluator("cuda", settings) as evaluator:
        environment = evaluator.environment(there[0])
    for problem in there:
        codes = GeneratedCodes(cache_folder(), settings.lowering(problem))
        codes.put(problem, environment, kept[problem.id])


def keep_from_cache(problem: TorchProblem, environment: Mapping[str, str], options: argparse.Namespace) -> None:
    """Add the compiler's code of a problem, at its own sizes, to the file, unless that or the given one has it."""
    if problem.sizes:  # another run would take it for code at its own
        return
    settings = settings_of(options)
    known = kept_codes(options.codes, settings).keys() | kept_codes(options.keep_codes, settings).keys()
    code = GeneratedCodes(cache_folder(), settings.lowering(problem)).get(problem, environment)
    if code is not None and problem.id not in known:
        keep_code(options.keep_codes, problem, code, settings)


def settings_of(options: argparse.Namespace) -> Settings:
    """Return the settings on which the compiler's code depends."""
    return Settings(precision=options.precision, allow_torch=options.allow_torch)


def _verified(rows: list[dict[str, Any]], name: str) -> list[float]:
    return [row[name] for row in rows if row["status"] == "ok" and row.get(name)]


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.3g}x"


def show(rows: list[dict[str, Any]]) -> None:
    """Print the table, why problems have no result, and the summary as JSON."""
    console = Console(width=WIDTH)
    console.print(table(rows))
    for row in rows:
        if row["status"] != "ok":
            console.print(f"{row['id']}: {row['status']}: {row['message']}", markup=False)
    print(json.dumps(summary(rows)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--level", default="1", help="one or several: 1,2")
    parser.add_argument("--problems", type=numbers, help="numbers in the level, such as 1-10,19; by default all")
    parser.add_argument("--every", type=int, default=1, help="take problems whose number is divisible by this")
    parser.add_argument("--model", default="rules", help="who proposes: rules, or a language model")
    parser.add_argument("--dataset", type=Path, help="a KernelBench checkout; by default the shipped problems")
    parser.add_argument("--backend", help="triton, tilelang or tilelang_cpu; by default the device's own")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--workload", help="sizes; by default the device's own")
    parser.add_argument("--seconds", type=float, default=120, help="for one problem, its start's evaluation among them")
    parser.add_argument("--trials", type=int, help="evaluations of one problem, its start's among them")
    parser.add_argument("--target", type=float, default=1e9, help="speedup over eager at which a problem ends")
    parser.add_argument("--no-compile", action="store_true", help="do not time torch.compile")
    parser.add_argument("--no-archive", action="store_true", help="neither use nor extend the archive")
    parser.add_argument("--precision", type=Precision, default=Precision.FP32, help="fp32, or default")
    parser.add_argument("--allow-torch", type=AllowTorch, default=AllowTorch.GLUE, help="none, glue or all")
    parser.add_argument("--shard", default="1/1", help="K/N: the K-th of N parts of the problems")
    parser.add_argument("--output", type=Path, default=Path("kernelbench.jsonl"))
    parser.add_argument("--results", type=Path, default=Path("kernelbench_results"))
    parser.add_argument("--codes", type=Path, help="torch.compile's code of problems, which is not generated again")
    parser.add_argument("--keep-codes", type=Path, help="a file to which torch.compile's code of problems is added")
    parser.add_argument("--resume", action="store_true", help="leave out what the output has")
    parser.add_argument("--show", type=Path, nargs="+", metavar="FILE", help="print the table of these files only")
    options = parser.parse_args()
    if options.show:
        show([row for path in options.show for row in Rows.of(path)])
        return 0
    wanted = options.problems
    problems = problems_of(
        options.dataset,
        options.level,
        lambda number: number % options.every == 0 and (wanted is None or number in wanted),
    )
    if missing := sorted((wanted or set()) - set(map(number_of, problems))):
        parser.error(f"level {options.level} has no problem {', '.join(map(str, missing))}")
    rows = Rows(options.output, options.resume)
    done = {row["id"] for row in rows.rows}
    left = [item for item in share_of(problems, options.shard) if item.id not in done]
    if options.codes:
        give_to_cache(left, options)
    with optimizer_of(options) as optimizer:
        for place, problem in enumerate(left, start=1):
            rows.add(row_of(problem, optimizer, options))
            row = rows.rows[-1]
            figures = ", ".join(f"{_times(row[name])} of {what}" for name, what in AGAINST.items() if row.get(name))
            print(
                f"{place}/{len(left)} {row['id']} {row['status']} {figures or row['message']} {row['seconds']} s",
                flush=True,
            )
    show(rows.rows)
    return int(any(row["status"] != "ok" for row in rows.rows))


if __name__ == "__main__":
    run_benchmark(main)
