"""`optimize`: one kernel, a batch, or the list of slow ones, on the terminal."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..api.batch import run_batch
from ..api.list_slow import SlowKernel, run_list_slow
from ..api.list_slow_problems import SlowProblem
from ..api.optimize import run_optimize
from ..api.options.optimize import BatchOptions, ListSlowOptions, OptimizeOptions
from ..core import OptionError
from ..runtime.words import busy
from .console import console
from .guard import NOTHING_FASTER
from .optimize_progress import RunDisplay, RunLines, RunTable
from .optimize_result import batch_table, problem_table, slow_table
from .parameters import chosen
from .render import Display, Screen

COLUMNS = tuple(field.name for field in dataclasses.fields(SlowKernel))
PROBLEM_COLUMNS = tuple(field.name for field in dataclasses.fields(SlowProblem) if field.name not in COLUMNS)


def run_display(display: Display) -> RunDisplay:
    """How runs are shown: live, in lines, or only their result."""
    if display.quiet:
        return RunDisplay(display)
    live = RunTable(display)
    return live if live.live else RunLines(display)


def show_optimize(given: Mapping[str, Any], display: Display) -> int:
    """Optimize one kernel; 0 when it ended with a faster one, `NOTHING_FASTER` when none of the verified is."""
    result = run_optimize(chosen(given, OptimizeOptions), run_display(display).emit)
    if display.json:
        display.print_json(result.summary())
    if not result.verified:
        return 1
    return 0 if result.faster else NOTHING_FASTER


def show_batch(given: Mapping[str, Any], source: str, display: Display) -> int:
    """Optimize every kernel named; 0 when all ended with a verified kernel, `NOTHING_FASTER` when none is faster."""
    screen = run_display(display)
    result = run_batch(chosen(given, BatchOptions, kernels=read_references(source)), screen.emit)
    if not display.quiet:
        screen.print(batch_table(result.summaries))
    if display.json:
        display.print_json({"results": result.summaries})
    if not result.verified:
        return 1
    return 0 if result.faster else NOTHING_FASTER


def show_list_slow(given: Mapping[str, Any], form: str | None, display: Display) -> int:
    """Print the kernels below the threshold; 0 when all could be measured."""
    options = chosen(given, ListSlowOptions)
    screen = Screen(display)
    listing = run_list_slow(options, screen.emit)
    form = form or ("json" if display.json else None)
    if form is None and sys.stdout.isatty():
        console().print(slow_table(listing, options.threshold))
        if listing.problems:
            screen.print(problem_table(listing.problems))
    else:
        sys.stdout.write(render_slow(listing.slow, form or "plain", listing.problems))
    disturbed = [f"{row.kernel}: {busy(row.contention)}" for row in listing.disturbed if row.contention is not None]
    disturbed += [f"{row.problem}: {busy(row.contention)}" for row in listing.problems if row.contention is not None]
    for line in [*listing.skipped, *listing.failed, *disturbed]:
        screen.warn(line)
    if disturbed and not options.again:
        screen.warn("their marked records are kept; --again measures them once more")
    return 1 if listing.failed or not (listing.measured or listing.problems) else 0


def render_slow(rows: Sequence[SlowKernel], form: str, problems: Sequence[SlowProblem] = ()) -> str:
    """Rows for a pipe, kernels first. Plain: speedup or headroom, category, and what `optimize` takes."""
    records = [*(row.record() for row in rows), *(row.record() for row in problems)]
    if form == "json":
        return json.dumps(records, indent=1) + "\n"
    if form == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, (*COLUMNS, *(PROBLEM_COLUMNS if problems else ())), lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        return text.getvalue()
    kernels = [f"{row.speedup:.3f} {row.category} {row.kernel}\n" for row in rows]
    return "".join([*kernels, *(f"{row.headroom:.3f} NO_KERNEL {row.problem}\n" for row in problems)])


def read_references(source: str) -> list[str]:
    """The kernels named in a file or on standard input: the last word of each line, # begins a comment."""
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"cannot read `batch` {source}: {error}") from None
    lines = [line.partition("#")[0].split() for line in text.splitlines()]
    if references := [words[-1] for words in lines if words]:
        return list(dict.fromkeys(references))
    raise OptionError(f"`batch` {source} names no kernels", "write one a line, such as level2/2_10.py")
