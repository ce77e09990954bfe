"""Measures what the archive is worth: turns and evaluations to a target on kernels that it knows nothing of.

    python benchmarks/archive.py [--fill 1_19,1_36,...] [--held-back 1_23,...] [--device cpu] [--backend NAME]
        [--iterations 3] [--share 0.9] [--time-limit S] [--workload NAME] [--folder DIR] [--output FILE.json] [--resume]

Rules optimize the kernels of `--fill`, each with the archive of those before it; then each of `--held-back` twice, once
without an archive and once with the one that the others filled, which runs of held-back kernels do not extend. The
target of a held-back kernel is `--share` of the smaller of the two speedups over its first kernel that the runs
reached: what both came to. A row has, for each of the two: the turns, evaluations and seconds until a kernel in full
evaluation was that fast, and those of the whole run. A run that ended is read from its journal with `--resume`.
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
from kernelwright.agent.history import History, load_history
from kernelwright.agent.history.files import runs_in
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
    """Return turns, evaluations and seconds until a turn's kernel was so many times as fast as the start."""
    assert history.start is not None and history.start.latency_ms is not None
    whole = {"all_evaluations": len(history.trials), "all_seconds": round(history.seconds or 0.0, 1)}
    for count, turn in enumerate(history.turns, start=1):
        found = turn.metrics
        if found is None or found.latency_ms is None or found.latency_ms * target > history.start.latency_ms:
            continue
        later = [place for place, one in enumerate(history.trials) if _later(one.origin, turn.number)]
        place = min(later, default=len(history.trials))
        seconds = history.trials[place - 1].elapsed_s or 0.0
        return {"turns": count, "evaluations": place, "seconds": round(seconds, 1), **whole}
    return {"turns": None, "evaluations": None, "seconds": None, **whole}


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
    target = max(1.0, options.share * min(gains.values()))
    found = {way: until(history, target) for way, history in histories.items()}
    return {"kernel": name, "target": round(target, 3), "gains": gains, **found}


def summary(rows: list[dict[str, Any]]) -> str:
    """Return a line per kernel, and the geometric means of with over without."""
    lines = []
    for one in rows:
        shown = (
            f"{way} {one[way]['turns']} turns, {one[way]['evaluations']} evaluations, {one[way]['seconds']} s "
            f"({one['gains'][way]:.2f}x)"
            for way in WAYS
        )
        lines.append(f"{one['kernel']}: to {one['target']:.2f}x of its start: {'; '.join(shown)}")
    for what in ("turns", "evaluations", "seconds"):
        both = [(one["with"][what], one["without"][what]) for one in rows]
        ratios = [new / old for new, old in both if new and old]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            lines.append(f"{what} with over without: {mean:.3f} (geometric mean of {len(ratios)})")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fill", default=FILL, help="kernels that fill the archive")
    parser.add_argument("--held-back", default=HELD_BACK, help="kernels that are measured")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backend", help="by default the device's own")
    parser.add_argument("--workload", help="sizes, by default the device's own")
    parser.add_argument("--iterations", type=int, default=3, help="turns of a run at the most")
    parser.add_argument("--share", type=float, default=0.9, help="of the smaller gain that is the target")
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
    main()
