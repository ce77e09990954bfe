"""The commands. Everything heavy is imported inside, so that help answers at once."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from ..api.options.evaluate import EvaluateOptions, ProfileOptions
from ..api.options.groups import OUTPUT
from ..api.options.optimize import ListSlowOptions, OptimizeOptions
from ..api.options.retrieve import RetrieveOptions
from ..evaluators.remote.options import Where
from .agent import agent_app
from .app import app
from .check import check
from .config import config
from .corpus import corpus_app
from .guard import guarded, started
from .help_examples import with_examples
from .mcp import mcp
from .parameters import RESUMABLE, JsonOption, QuietOption, with_options
from .registered import CommandGroup
from .report import report
from .trust import trust
from .tune import tune_app

app.add_typer(tune_app, name="tune")
app.add_typer(agent_app, name="agent")
app.add_typer(corpus_app, name="corpus")
app.command()(report)
app.command()(check)
app.command()(config)
app.command()(trust)
app.command()(mcp)


def _print_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        typer.echo(f"kernelwright {__version__}")
        raise typer.Exit


@app.callback(cls=CommandGroup)
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """See the help of `app`."""


class Format(StrEnum):
    """Forms of the list of slow kernels."""

    PLAIN = "plain"
    JSON = "json"
    CSV = "csv"


@app.command()
@with_examples(
    "optimize --kernel level1/1_94.py --target-speedup 1.3",
    "optimize --list-slow --dataset ~/KernelBench",
    "optimize --problem model.py --device cuda",
    "optimize --kernel ops.py::swiglu --reference ops.py::swiglu_torch --inputs bench.py::inputs --patch out.diff",
    "optimize --kernel 2_10 --model openai/o3 --beam 2 --max-cost 3",
)
@with_options(OptimizeOptions)
@with_options(ListSlowOptions, only=("threshold", "folder", "again"))
def optimize(
    given: Mapping[str, Any],
    list_slow: Annotated[
        bool,
        typer.Option(
            "--list-slow", "-l", help="List kernels below --threshold, and problems of --dataset without one."
        ),
    ] = False,
    batch: Annotated[
        str | None,
        typer.Option(help="Optimize every kernel named in a file, one a line; - reads standard input.", metavar="FILE"),
    ] = None,
    format: Annotated[
        Format | None, typer.Option(help="Form of --list-slow: plain, json, csv. On a terminal a table.")
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print changes and logs too.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Make a kernel faster over several turns, and write the fastest one that is verified.

    Exit codes: 0 finished with a faster kernel, 1 failed, 2 wrong usage, 3 nothing faster was found, 75 waiting for a
    reply (--no-wait).
    """

    def work() -> int:
        from ..core import OptionError
        from .optimize import show_batch, show_list_slow, show_optimize
        from .render import Display

        alone = given["problem"] and not (list_slow or batch)
        if sum(map(bool, (given["kernel"] or alone, list_slow, batch))) != 1:
            raise OptionError("give one of `kernel` REF, `problem` FILE, `list_slow` or `batch` FILE", "see --help")
        if quiet and verbose:
            raise OptionError("--quiet and --verbose exclude each other")
        if format and not list_slow:
            raise OptionError("--format belongs to `list_slow`", "use --json for a run")
        if given["again"] and not list_slow:
            raise OptionError("`again` belongs to `list_slow`")
        if given["folder"] and not list_slow:
            raise OptionError("`folder` belongs to `list_slow`", "`kernel` names one of its kernels")
        if list_slow and given["evaluator"] is not Where.LOCAL:
            raise OptionError("`list_slow` measures on this machine", "`evaluator` goes with `kernel` and `batch`")
        display = Display(json=json, quiet=quiet, verbose=verbose, to_stderr=list_slow)
        if list_slow:
            return show_list_slow(given, format.value if format else None, display)
        if batch:
            return show_batch(given, batch, display)
        return show_optimize(given, display)

    raise typer.Exit(guarded(work, RESUMABLE))


@app.command()
@with_examples(
    "evaluate --kernel 1_19",
    "evaluate --kernel my_kernel.py --problem 2_12 --baseline compile",
    "evaluate --kernel 1_19 --protocol both --json",
)
@with_options(EvaluateOptions)
def evaluate(given: Mapping[str, Any], json: JsonOption = False) -> None:
    """Check a kernel against its reference and time it, once.

    Exit codes: 0 it is correct, 1 it is not or is unproven, 2 wrong usage.
    """

    def work() -> int:
        from .evaluate import show_evaluate
        from .render import Display

        return show_evaluate(given, Display(json=json))

    raise typer.Exit(guarded(work))


@app.command()
@with_examples(
    "profile --kernel 1_19",
    "profile --kernel 2_10 --device cuda --ncu",
)
@with_options(ProfileOptions)
def profile(given: Mapping[str, Any], json: JsonOption = False) -> None:
    """Find a kernel's bottleneck, with the evidence.

    Exit codes: 0 it was profiled, 1 it is not correct or is unproven, 2 wrong usage.
    """

    def work() -> int:
        from .profile import show_profile
        from .render import Display

        return show_profile(given, Display(json=json))

    raise typer.Exit(guarded(work))


@app.command()
@with_examples(
    'retrieve "row softmax reads its input three times" --backend triton',
    "retrieve --kernel 1_36 --k 5 --source",
)
@with_options(RetrieveOptions, positional=("text",))
def retrieve(
    given: Mapping[str, Any],
    source: Annotated[bool, typer.Option("--source", help="Print the optimized kernels too.")] = False,
    json: JsonOption = False,
) -> None:
    """Find worked optimizations, by meaning and by words.

    Exit codes: 0 something was found, 1 nothing was, 2 wrong usage.
    """

    def work() -> int:
        from .render import Display
        from .retrieve import show_retrieve

        return show_retrieve(given, source, Display(json=json))

    raise typer.Exit(guarded(work))


def main() -> None:
    """`kernelwright COMMAND`, also as `python -m kernelwright`: completion belongs to the name."""
    sys.exit(started(app, "kernelwright"))


def optimize_main() -> None:
    """`optimize`, short for `kernelwright optimize`."""
    single = typer.Typer(pretty_exceptions_enable=False)
    single.command()(optimize)
    sys.exit(started(single, "optimize"))
