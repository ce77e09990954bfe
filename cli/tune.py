"""The commands of `kernelwright tune` and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..evaluators.remote.options import Where
from ..evaluators.settings import AllowTorch, Sandbox
from .guard import guarded
from .machines import EvaluatorOption, GpuOption, Machines, RayAddressOption
from .options import (
    OUTPUT,
    WHERE,
    BackendOption,
    DatasetOption,
    JsonOption,
    NoSaveOption,
    ProblemOption,
    QuietOption,
    ResultsOption,
    ResumeOption,
    WorkloadOption,
)
from .trust import AllowTorchOption, BaselineOption, GraphOption, SandboxOption, Trust

tune_app = typer.Typer(
    help="Search the parameters of a kernel.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

SPACE = "Search space"
SEARCH = "Search"


@tune_app.command()
def kernel(
    kernel: Annotated[str, typer.Argument(help="Kernel to tune: a path, level1/1_1.py, 1_1.", metavar="REF")],
    param: Annotated[
        list[str] | None,
        typer.Option(
            help="A parameter and its values; replaces a declared one.", metavar="NAME=A,B,C", rich_help_panel=SPACE
        ),
    ] = None,
    constraint: Annotated[
        list[str] | None,
        typer.Option(help="An expression that every config must satisfy.", metavar="EXPR", rich_help_panel=SPACE),
    ] = None,
    no_prune: Annotated[
        bool, typer.Option("--no-prune", help="Keep configs that the device cannot run.", rich_help_panel=SPACE)
    ] = False,
    tuner: Annotated[
        str,
        typer.Option(help="portfolio, xgboost, hill_climb, annealing, random or grid.", rich_help_panel=SEARCH),
    ] = "portfolio",
    stride: Annotated[
        int | None, typer.Option(help="Of the grid: every N-th config first.", metavar="N", rich_help_panel=SEARCH)
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(help="At most this many configs; by default 200, for grid all.", rich_help_panel=SEARCH),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Start no trial after this time.", rich_help_panel=SEARCH)
    ] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after so many trials without a better one.", rich_help_panel=SEARCH)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the tuner's choices.", rich_help_panel=SEARCH)] = 0,
    warm: Annotated[
        list[Path] | None,
        typer.Option(
            help="A journal or recording of the same parameters elsewhere.", metavar="FILE", rich_help_panel=SEARCH
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(help="cpu, cuda, cuda:N, or several GPUs: cuda:0,cuda:1.", rich_help_panel=WHERE)
    ] = "auto",
    backend: BackendOption = None,
    problem: ProblemOption = None,
    dataset: DatasetOption = None,
    workload: WorkloadOption = None,
    evaluator: EvaluatorOption = Where.LOCAL,
    gpu: GpuOption = None,
    ray_address: RayAddressOption = None,
    compilers: Annotated[
        int | None,
        typer.Option(
            help="Processes that compile, per device; by default its share of the cores, or half of it on a GPU "
            "where the next choice depends on the last result.",
            rich_help_panel=WHERE,
        ),
    ] = None,
    compile_limit: Annotated[
        float, typer.Option(help="Seconds after which a compilation is given up.", rich_help_panel=WHERE)
    ] = 120.0,
    allow_torch: AllowTorchOption = AllowTorch.GLUE,
    sandbox: SandboxOption = Sandbox.AUTO,
    graph: GraphOption = False,
    baseline: BaselineOption = None,
    results: ResultsOption = Path("results"),
    resume: ResumeOption = False,
    no_save: NoSaveOption = False,
    plot: Annotated[
        bool, typer.Option("--plot", help="Write the convergence curve as PNG.", rich_help_panel=OUTPUT)
    ] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Search the parameters of a Triton or TileLang kernel, and write the best config into a copy of it.

    Exit codes: 0 finished, 1 no config was right, 2 wrong usage.
    """
    from .tune_kernel import TuneRequest, run_tune

    request = TuneRequest(
        kernel=kernel, params=tuple(param or ()), constraints=tuple(constraint or ()), prune=not no_prune,
        tuner=tuner, stride=stride, trials=trials, seconds=seconds, patience=patience, seed=seed,
        warm=tuple(warm or ()), device=device, backend=backend.value if backend else None, problem=problem,
        dataset=dataset, workload=workload, compilers=compilers, compile_limit=compile_limit,
        machines=Machines(evaluator, gpu, ray_address),
        trust=Trust.of(allow_torch, sandbox, graph, baseline), results=results,
        resume=resume, save=not no_save, plot=plot, json=json, quiet=quiet,
    )  # fmt: skip
    interrupted = "interrupted; the same command with --resume goes on from here"
    raise typer.Exit(guarded(lambda: run_tune(request), interrupted))


@tune_app.command()
def replay(
    file: Annotated[
        Path,
        typer.Argument(help="A recorded search: CSV, journal, Kernel Tuner cache or T4 results; may be gzipped."),
    ],
    tuner: Annotated[
        list[str] | None, typer.Option(help="A tuner to replay; several times for several. By default all.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Searches per tuner, each from its own seed.")] = 30,
    budget: Annotated[int, typer.Option(help="Unique evaluations per search.")] = 500,
    warm: Annotated[
        Path | None,
        typer.Option(help="A recording of the same parameters on another GPU or shape to learn from.", metavar="FILE"),
    ] = None,
    batch: Annotated[int, typer.Option(help="Configs that a tuner is asked for at a time.")] = 1,
    json: JsonOption = False,
) -> None:
    """Let tuners search a recorded space, without a device, and show how many evaluations they need.

    Exit codes: 0 finished, 1 failed, 2 wrong usage.
    """
    from .tune_replay import ReplayRequest, run_replay

    request = ReplayRequest(file, tuple(tuner or ()), seeds, budget, warm, batch, json)
    raise typer.Exit(guarded(lambda: run_replay(request)))


@tune_app.command()
def export(
    journal: Annotated[Path, typer.Argument(help="A recorded search in any readable form.")],
    csv: Annotated[Path | None, typer.Option(help="Write a CSV; packed if it ends in .gz.", metavar="FILE")] = None,
    t4: Annotated[
        Path | None, typer.Option(help="Write T4 results as JSON; packed if it ends in .gz.", metavar="FILE")
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(help="Of a journal with several kernels, the digest of the one.", metavar="DIGEST")
    ] = None,
) -> None:
    """Write a recorded search in another form.

    Exit codes: 0 finished, 2 wrong usage.
    """
    from .tune_export import run_export

    raise typer.Exit(guarded(lambda: run_export(journal, csv, t4, kernel)))
