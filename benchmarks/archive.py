"""Measures what the archive is worth: turns and evaluations to a target on kernels that it knows nothing of.

    python benchmarks/archive.py [--fill 1_19,1_36,...] [--held-back 1_23,...] [--device cpu] [--backend NAME]
        [--iterations 3] [--shares 0.8,0.9,1.0] [--time-limit S] [--workload NAME] [--folder DIR]
        [--output FILE.json] [--resume]

Rules optimize the kernels of `--fill`, each with the archive of those before it; then each of `--held-back` twice, once
without an archive and once with the one that the others filled, which runs of held-back kernels do not extend. The
targets of a held-back kernel are `--shares` of the smaller of the two speedups over its first kernel that the runs
verified: what both came to. A row has, for each of the two: the turns, evaluations and seconds until a turn's kernel
was that fast in a full evaluation, which trial was the first that was (quick ones are included), and the evaluations
and seconds of the whole run. A run that ended is read from its journal with `--resume`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
from pathlib import Path
from typing import Any

import kernelwright
from command import run_benchmark
from kernelwright.agent.history import History, load_history
from kernelwright.agent.history.records import runs_in
from kernelwright.core import KernelwrightError

FILL = "1_19,1_36,1_38,1_47,1_94,2_10,2_12"
HELD_BACK = "1_23,1_40,2_61,2_95"
WAYS = ("without", "with")


def run(name: str, results: Path, archive: Path, use: bool, options: argparse.Namespace) -> History:
    """Optimize a kernel, or read the run that did so before."""
    if not (options.resume and _ended(results)):
        os.environ["KERNELWRIGHT_ARCHIVE"] = str(archive)
        kernelwright.optimize(
            name,
            device=options.device,
            backend=options.backend,
            workload=options.workload,
            model="rules",
            target_speedup=1e9,
            max_iterations=options.iterations,
            min_improvement=0.0,
            time_limit=options.time_limit,
            results=results,
            archive=use,
        )
    return load_history(runs_in(results)[0])


def _ended(results: Path) -> bool:
    try:
        return load_history(runs_in(results)[0]).finished is not None
    except KernelwrightError:
        return False


def gained(history: History) -> float:
    """Return the verified speedup of a run over its first kernel; 1.0 where nothing was verified."""
    verified = history.finished is not None and history.finished.verified
    return max(1.0, history.times_faster or 1.0) if verified else 1.0


def until(history: History, target: float) -> dict[str, float | int | None]:
    """Return what it took until a turn's kernel was so many times as fast as the start, and until any trial was."""
    assert history.start is not None and history.start.latency_ms is not None
    enough = history.start.latency_ms / target
    quick = (i for i, trial in enumerate(history.trials, start=1) if (trial.metrics.latency_ms or math.inf) <= enough)
    found: dict[str, float | int | None] = {"first_trial": next(quick, None)}
    for count, turn in enumerate(history.turns, start=1):
        if turn.metrics is None or (turn.metrics.latency_ms or math.inf) > enough:
            continue
        later = [place for place, trial in enumerate(history.trials) if _later(trial.origin, turn.number)]
        place = min(later, default=len(history.trials))
        seconds = history.trials[place - 1].elapsed_s or 0.0
        return {**found, "turns": count, "evaluations": place, "seconds": round(seconds, 1)}
    return {**found, "turns": None, "evaluations": None, "seconds": None}


def _later(origin: str, number: int) -> bool:
    """Return whether an evaluation belongs to a later turn, or to the last check."""
    found = re.match(r"(?:search: )?turn (\d+)", origin)
    return origin == "final" or (found is not None and int(found[1]) > number)


def row(name: str, filled: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Optimize a held-back kernel with and without the archive."""
    histories = {}
    for way in WAYS:
        results = options.folder / way / name
        results.mkdir(parents=True, exist_ok=True)
        archive = results / "archive.jsonl"
        if way == "with":
            shutil.copyfile(filled, archive)
        histories[way] = run(name, results, archive, way == "with", options)
    gains = {way: round(gained(history), 3) for way, history in histories.items()}
    targets = []
    for share in map(float, options.shares.split(",")):
        target = max(1.0, share * min(gains.values()))
        found = {way: until(history, target) for way, history in histories.items()}
        targets.append({"share": share, "target": round(target, 3), **found})
    whole = {
        way: {"evaluations": len(history.trials), "seconds": round(history.seconds or 0.0, 1)}
        for way, history in histories.items()
    }
    return {"kernel": name, "gains": gains, "whole": whole, "targets": targets}


def summary(rows: list[dict[str, Any]]) -> str:
    """Return a line per kernel and target, and the geometric means of with over without."""
    lines = []
    for record in rows:
        gains, whole = record["gains"], record["whole"]
        came = [f"{way} {gains[way]:.2f}x in {whole[way]['evaluations']} evaluations" for way in WAYS]
        lines.append(f"{record['kernel']}: {', '.join(came)}")
        for target in record["targets"]:
            lines_of_target = [
                f"{way} {target[way]['turns']} turns, {target[way]['evaluations']} evaluations "
                f"(trial {target[way]['first_trial']} was the first)"
                for way in WAYS
            ]
            lines.append(f"  to {target['target']:.2f}x: {'; '.join(lines_of_target)}")
    for place, target in enumerate(rows[0]["targets"] if rows else ()):
        for what in ("turns", "evaluations", "first_trial", "seconds"):
            both = [(row["targets"][place]["with"][what], row["targets"][place]["without"][what]) for row in rows]
            ratios = [new / old for new, old in both if new and old]
            if ratios:
                mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                of = f"{len(ratios)} of {len(rows)} kernels"
                lines.append(f"to {target['share']:.0%}: {what.replace('_', ' ')} with over without {mean:.3f} ({of})")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fill", default=FILL, help="kernels that fill the archive")
    parser.add_argument("--held-back", default=HELD_BACK, help="kernels that are measured")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backend", help="by default the device's own")
    parser.add_argument("--workload", help="sizes, by default the device's own")
    parser.add_argument("--iterations", type=int, default=3, help="turns of a run at the most")
    parser.add_argument("--shares", default="0.8,0.9,1.0", help="of the smaller gain that are the targets")
    parser.add_argument("--time-limit", type=float, help="seconds of a run's turns")
    parser.add_argument("--folder", type=Path, default=Path("archive_benchmark"), help="for results and archives")
    parser.add_argument("--output", type=Path, help="write the rows to this file too")
    parser.add_argument("--resume", action="store_true", help="read runs that ended from the folder")
    options = parser.parse_args()
    filled = options.folder / "archive.jsonl"
    if not options.resume:
        filled.unlink(missing_ok=True)
    versions: dict[str, str] = {}
    for name in options.fill.split(","):
        history = run(name, options.folder / "fill" / name, filled, True, options)
        versions = dict(history.environment)
        print(f"filled with {name}: {gained(history):.2f}x, {len(history.trials)} evaluations", flush=True)
    rows = []
    for name in options.held_back.split(","):
        rows.append(row(name, filled, options))
        print(json.dumps(rows[-1]), flush=True)
    print(json.dumps(versions))
    print(summary(rows))
    if options.output:
        settings = {name: str(value) for name, value in vars(options).items() if name not in ("folder", "output")}
        found = {"environment": versions, "settings": settings, "rows": rows}
        options.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    run_benchmark(main)
