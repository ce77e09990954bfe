"""`optimize` on a command line: one kernel, many with `--batch` or `--recorded`, or with `--list-slow` a list."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..core.errors import OptionError
from ..core.files import read_text
from ..core.quotation import plain
from ..evaluators.remote.options import LOCAL
from ..runtime.command import find_command
from .execution import DryRunOption, carry_out, guarded, open_screen, work
from .parameters import RESUMABLE, Display, JsonOption, QuietOption, VerboseOption, with_examples, with_options


class Format(StrEnum):
    """Forms of the list of slow kernels."""

    PLAIN = "plain"
    JSON = "json"
    CSV = "csv"


OPTIMIZE, LIST_SLOW, BATCH = find_command("optimize"), find_command("list_slow"), find_command("batch")
RECORDED = find_command("optimize_recorded")


def _optimize(
    given: Mapping[str, Any],
    list_slow: Annotated[
        bool,
        typer.Option(
            "--list-slow", "-l", help="List kernels below --threshold, and problems of --dataset without one."
        ),
    ] = False,
    batch: Annotated[
        str | None,
        typer.Option(help="Optimize every kernel named in a file, one per line; - reads stdin.", metavar="FILE"),
    ] = None,
    format: Annotated[
        Format | None, typer.Option(help="Form of --list-slow: plain, json, csv. On a terminal a table.")
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    dry_run: DryRunOption = False,
) -> None:
    def do() -> int:
        alone = given["problem"] and not (list_slow or batch)
        recorded = given["recorded"] and not list_slow
        if sum(map(bool, (given["kernel"] or alone, list_slow, batch, recorded))) != 1:
            raise OptionError(
                "give one of `kernel` REF, `problem` FILE, `list_slow`, `batch` FILE or `recorded` DIR", "see --help"
            )
        if format and not list_slow:
            raise OptionError("--format belongs to `list_slow`", "use --json for a run")
        if given["again"] and not list_slow:
            raise OptionError("`again` belongs to `list_slow`")
        if given["folder"] and not list_slow:
            raise OptionError("`folder` belongs to `list_slow`", "`kernel` names one of its kernels")
        if list_slow and given["evaluator"] != LOCAL:
            raise OptionError("`list_slow` measures on this machine", "`evaluator` goes with `kernel` and `batch`")
        if (list_slow or batch or recorded) and (given["dynamic"] or given["backward"]):
            raise OptionError("`dynamic` and `backward` belong to `kernel` and `problem`")
        display = Display(json, quiet, verbose)
        if list_slow:
            return _list(given, format.value if format else "json" if json else None, display, dry_run)
        if batch:
            return work(BATCH, {**given, "kernels": read_references(batch)}, display, dry_run)
        if recorded:
            return work(RECORDED, given, display, dry_run)
        return work(OPTIMIZE, given, display, dry_run)

    raise typer.Exit(guarded(do, RESUMABLE))


_optimize.__doc__ = OPTIMIZE.help
optimize = with_examples(*OPTIMIZE.declared.examples)(
    with_options(OPTIMIZE.options)(with_options(LIST_SLOW.options, only=OPTIMIZE.declared.also[1])(_optimize))
)


def _list(given: Mapping[str, Any], form: str | None, display: Display, dry_run: bool) -> int:
    """Print the kernels below the threshold, in a form for pipes if one is given."""
    if form is None or dry_run:
        return work(LIST_SLOW, given, display, dry_run)
    screen = open_screen(LIST_SLOW, display)
    result = carry_out(LIST_SLOW, given, screen)
    sys.stdout.write(plain(result.render(form)))
    screen.show(result, None)
    exit_code: int = result.exit_code
    return exit_code


def read_references(source: str) -> list[str]:
    """The kernels named in a file or on standard input: the last word of each line, # begins a comment."""
    try:
        text = sys.stdin.read() if source == "-" else read_text(Path(source))
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"cannot read `batch` {source}: {error}") from None
    lines = [line.partition("#")[0].split() for line in text.splitlines()]
    if references := [words[-1] for words in lines if words]:
        return list(dict.fromkeys(references))
    raise OptionError(f"`batch` {source} names no kernels", "write one per line, such as level2/2_10.py")
