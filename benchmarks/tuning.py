"""Measures the speed of a search on the device, and how close to the best of the whole space it gets.

    python benchmarks/tuning.py [--device cuda] [--kernel FILE --problem FILE] [--workload M=..,N=..,K=..]
                                [--trials 40] [--seeds 3] [--csv FILE] [--json FILE]

First every config of the space is compiled, checked and timed (tuner 'grid'), then the portfolio searches the same
space from several seeds. Seconds are wall time from the first config to the last result; preparation (the fork
server, the reference, the roofline) and the final comparison are listed beside them. A search's quality is the time
of its winner in the exhaustive pass over the best time there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from command import run_benchmark
from environment import tuners_environment
from kernelwright.core import Budget, Config, Journal
from kernelwright.core.events import Event, TrialDone
from kernelwright.evaluators.settings import Limits, Settings
from kernelwright.runtime.devices import choose_device
from kernelwright.runtime.evaluators import search_evaluator
from kernelwright.runtime.jobs import Job, find_job
from kernelwright.runtime.options.groups import ProblemOptions
from kernelwright.tuners import catalogue
from kernelwright.tuners.discovery import space_of
from kernelwright.tuners.formats import write_csv
from kernelwright.tuners.hardware import prune
from kernelwright.tuners.search import Found, Search

GEMM = Path(__file__).parent / "gemm"


class Times:
    """Records the end time of each trial."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, TrialDone):
            self.seconds.append(round(event.seconds, 2))


def search(
    request: ProblemOptions, kernel: str, tuner_name: str, trials: int | None, seed: int
) -> tuple[Found, dict[str, Any]]:
    """One search from a cold start; what it found, and its metrics."""
    device = choose_device(request.device, request.backend)
    task = find_job(request, kernel, device)
    start = time.perf_counter()
    adaptive = catalogue.adaptive(tuner_name)
    with (
        tempfile.TemporaryDirectory() as folder,
        Journal(Path(folder) / "journal.jsonl") as journal,
        search_evaluator([device], None, adaptive, Settings(limits=Limits(compile_s=60.0))) as evaluator,
    ):
        catalogue.preload(tuner_name)
        profile = evaluator.profile(task.problem)
        space, rules = prune(space_of(task.kernel, {}, ()).space, task.kernel, profile)
        own = [Config({name: task.kernel.config[name] for name in space.names})]
        tuner = catalogue.create_tuner(tuner_name, space, seed, start=own, profile=profile)
        ready = time.perf_counter()
        times = Times()
        run = Search(task.problem, task.kernel, space, tuner, evaluator, journal, Budget(trials=trials), times)
        found = run.run()
        ended = time.perf_counter()
    progress = found.progress
    timed = [e for e in found.evaluations if e.latency_ms is not None]
    return found, {
        "tuner": tuner_name,
        "seed": seed,
        "configs": space.size,
        "rules": rules,
        "trials": progress.trials,
        "statuses": {status.value: count for status, count in progress.statuses.items()},
        "duplicates": progress.duplicates,
        "ready_s": round(ready - start, 2),
        "search_s": round(progress.seconds, 2),
        "trial_ended_s": times.seconds,
        "finals_s": round(ended - ready - progress.seconds, 2),
        "compile_cpu_s": round(sum(e.compile_s or 0.0 for e in found.evaluations), 1),
        "best_ms": min((e.latency_ms or 0.0 for e in timed), default=None),
        "winner": found.best.config if found.best else None,
        "winner_ms": found.best.latency_ms if found.best else None,
        "speedup_over_reference": found.best.speedup.ratio if found.best and found.best.speedup else None,
        "environment": found.evaluations[0].environment if found.evaluations else {},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--kernel", default=str(GEMM / "triton_fp16.py"))
    parser.add_argument("--problem", default=str(GEMM / "problem.py"))
    parser.add_argument("--workload")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    request = ProblemOptions(problem=options.problem, workload=options.workload, device=options.device)
    found, whole = search(request, options.kernel, "grid", None, 0)
    print_metrics(whole)
    if options.csv:
        write_csv(options.csv, found.evaluations)
    times = {Config(e.config): e.latency_ms for e in found.evaluations}
    best = min(ms for ms in times.values() if ms is not None)
    runs = []
    for seed in range(options.seeds):
        _, metrics = search(request, options.kernel, catalogue.DEFAULT, options.trials, seed)
        winner = metrics["winner"] and times.get(Config(metrics["winner"]))
        metrics["share_of_exhaustive_best"] = best / winner if winner else None
        print_metrics(metrics)
        runs.append(metrics)
    if shares := [run["share_of_exhaustive_best"] for run in runs if run["share_of_exhaustive_best"]]:
        print(
            f"portfolio, {options.trials} trials: {statistics.median(shares):.1%} of the exhaustive best (median of "
            f"{len(shares)}), {statistics.median(run['search_s'] for run in runs):.1f} s; "
            f"exhaustive {whole['search_s']:.1f} s",
            flush=True,
        )
    if options.json:
        task = find_job(request, options.kernel, choose_device(request.device, request.backend))
        options.json.write_text(
            json.dumps({**described(task), "exhaustive": whole, "portfolio": runs}, indent=1) + "\n"
        )


def described(task: Job) -> dict[str, Any]:
    """Describe the search and its environment."""
    return {
        "problem": task.problem.id,
        "sizes": dict(task.problem.sizes),
        "kernel": task.kernel.digest,
        **tuners_environment(),
    }


def print_metrics(metrics: dict[str, Any]) -> None:
    """Print one search in two lines."""
    share = metrics.get("share_of_exhaustive_best")
    print(
        f"{metrics['tuner']} seed {metrics['seed']}: {metrics['trials']} of {metrics['configs']} configs, "
        f"{metrics['statuses']}, {metrics['duplicates']} duplicates; ready {metrics['ready_s']} s, "
        f"search {metrics['search_s']} s, finals {metrics['finals_s']} s, compiling {metrics['compile_cpu_s']} s\n"
        f"  best {metrics['best_ms']}, winner {metrics['winner']} {metrics['winner_ms']} ms, against the reference "
        f"{metrics['speedup_over_reference']}{f', {share:.1%} of the exhaustive best' if share else ''}",
        flush=True,
    )


if __name__ == "__main__":
    run_benchmark(main)
