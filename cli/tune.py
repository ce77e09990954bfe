"""The commands of `kernelwright tune`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from ..api.options.attention import AttentionConfig
from ..api.options.mlir import MlirOptions
from ..api.options.tune import ExportOptions, ReplayOptions
from .guard import guarded
from .help_examples import examples_block, with_examples
from .parameters import RESUMABLE, JsonOption, QuietOption, with_options
from .registered import CommandGroup

tune_app = typer.Typer(
    cls=CommandGroup,
    name="tune",
    help="Search the parameters of a kernel.\n\n"
    + examples_block(("tune kernel 1_1 --trials 100", "tune gemm --sizes sizes.yaml --format vllm --output configs")),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@tune_app.command()
@with_examples(
    "tune attention --seq-len-q 4096 --head-dim 128 --trials 200 --plot",
    "tune attention --seq-len-q 4096 --head-dim 128 --simulate",
)
@with_options(AttentionConfig)
def attention(given: Mapping[str, Any], json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Search modulo schedules of an attention kernel: cycles of its operations, their interval, and tiles.

    Exit codes: 0 a schedule is faster, 1 none was correct, 2 wrong usage, 3 nothing faster was found.
    """

    def work() -> int:
        from .render import Display
        from .tune_attention import show_attention

        return show_attention(given, Display(json=json, quiet=quiet))

    raise typer.Exit(guarded(work, RESUMABLE))


@tune_app.command()
@with_examples(
    "tune mlir matmul.mlir --device cpu --trials 32",
    "tune mlir --config auto-scheduler.cfg --emit generated --save-cmds",
    "tune mlir matmul.mlir --device cuda --emit generated --dry-run",
)
@with_options(MlirOptions, positional=("file",))
def mlir(given: Mapping[str, Any], json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Schedule the matrix products and convolutions of an MLIR module that IREE compiles; needs the extra 'iree'.

    Exit codes: 0 a config is faster, 1 no config was correct, 2 wrong usage, 3 nothing faster was found.
    """

    def work() -> int:
        from .render import Display
        from .tune_mlir import show_mlir

        return show_mlir(given, Display(json=json, quiet=quiet))

    raise typer.Exit(guarded(work, RESUMABLE))


@tune_app.command()
@with_examples("tune replay recorded.csv.gz --tuner portfolio --tuner random --seeds 10")
@with_options(ReplayOptions, positional=("file",))
def replay(given: Mapping[str, Any], json: JsonOption = False) -> None:
    """Let tuners search a recorded space, without a device, and show how many evaluations they need.

    Exit codes: 0 finished, 1 failed, 2 wrong usage.
    """

    def work() -> int:
        from .tune_replay import show_replay

        return show_replay(given, json)

    raise typer.Exit(guarded(work))


@tune_app.command()
@with_examples("tune export journal.jsonl --csv search.csv", "tune export journal.jsonl --t4 results.json")
@with_options(ExportOptions, positional=("journal",))
def export(given: Mapping[str, Any]) -> None:
    """Write a recorded search in another form.

    Exit codes: 0 finished, 2 wrong usage.
    """

    def work() -> int:
        from ..api.export import run_export
        from .parameters import chosen

        result = run_export(chosen(given, ExportOptions))
        recording = result.recording
        for path in result.files:
            typer.echo(f"wrote {path}: {len(recording.results)} configs, best {recording.best[1]:.6g} ms")
        return 0

    raise typer.Exit(guarded(work))
