"""`kernelwright agent`: the program that language models follow; `compile` improves its instructions."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .guard import guarded
from .options import (
    OUTPUT,
    WHERE,
    Backend,
    DatasetOption,
    DeviceOption,
    JsonOption,
    QuietOption,
    ResultsOption,
    ResumeOption,
)

MODEL = "Language model"
BUDGET = "Budget"

agent_app = typer.Typer(name="agent", help="The instructions that language models follow.", no_args_is_help=True)


class Size(StrEnum):
    LIGHT = "light"
    MEDIUM = "medium"
    HEAVY = "heavy"


@agent_app.callback()
def agent() -> None:
    """The instructions that language models follow."""


@agent_app.command("compile")
def compile_(
    recorded: Annotated[
        list[Path], typer.Argument(help="Results folders of earlier runs, or their journals.", metavar="RESULTS...")
    ],
    model: Annotated[
        str | None,
        typer.Option(
            help="Whom the instructions are for: openai/o3 or any provider/name, replay:FILE, files:DIR. By default "
            "openai/o3 if OPENAI_API_KEY is set.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    reflection_model: Annotated[
        str | None, typer.Option(help="Who improves them; by default the same model.", rich_help_panel=MODEL)
    ] = None,
    api_base: Annotated[
        str | None,
        typer.Option(help="URL of an OpenAI-compatible server of your own.", rich_help_panel=MODEL, metavar="URL"),
    ] = None,
    no_wait: Annotated[
        bool,
        typer.Option(
            "--no-wait",
            help="With files:DIR, end with exit code 75 when a reply is missing; --resume goes on.",
            rich_help_panel=MODEL,
        ),
    ] = False,
    budget: Annotated[
        Size,
        typer.Option(help="How many new instructions to try: light 6, medium 12, heavy 18.", rich_help_panel=BUDGET),
    ] = Size.LIGHT,
    max_evaluations: Annotated[
        int | None,
        typer.Option(help="Instead: about so many runs of the program, each in one situation.", rich_help_panel=BUDGET),
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Stop when models have used so many tokens.", rich_help_panel=BUDGET)
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(help="Stop when models have cost so many dollars.", rich_help_panel=BUDGET)
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(help="Stop asking models after so many seconds.", rich_help_panel=BUDGET)
    ] = None,
    seed: Annotated[
        int,
        typer.Option(help="Of the choice which situations validate, and of GEPA's choices.", rich_help_panel=BUDGET),
    ] = 0,
    device: DeviceOption = "auto",
    backend: Annotated[
        Backend | None,
        typer.Option(help="Whose instructions; by default that of most situations.", rich_help_panel=WHERE),
    ] = None,
    problem: Annotated[
        list[Path] | None,
        typer.Option(help="A problem file that is not shipped; may be repeated.", rich_help_panel=WHERE),
    ] = None,
    dataset: DatasetOption = None,
    output: Annotated[Path, typer.Option(help="File for the program.", rich_help_panel=OUTPUT)] = Path("program.json"),
    results: ResultsOption = Path("results"),
    resume: ResumeOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Improve the instructions with dspy.GEPA: try them on recorded problems, rewrite them, keep what measures better.

    'kernelwright optimize --program FILE' uses what is saved.

    Exit codes: 0 better instructions are saved, 1 none were better, 2 wrong usage, 75 waiting for a reply (--no-wait).
    """
    from .compile_program import CompileOptions, run_compile

    options = CompileOptions(
        recorded=tuple(recorded),
        model=model,
        reflection_model=reflection_model,
        api_base=api_base,
        wait=not no_wait,
        size=budget.value,
        max_evaluations=max_evaluations,
        max_tokens=max_tokens,
        max_cost=max_cost,
        time_limit=time_limit,
        seed=seed,
        device=device,
        backend=backend.value if backend else None,
        problems=tuple(problem or ()),
        dataset=dataset,
        output=output,
        results=results,
        resume=resume,
        json=json,
        quiet=quiet,
    )
    raise typer.Exit(
        guarded(lambda: run_compile(options), "interrupted; the same command with --resume goes on from here")
    )
