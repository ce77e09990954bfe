"""The commands and their options. Everything heavy is imported inside, so that help answers at once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..evaluators.kernelbench.precision import Precision
from ..evaluators.remote.options import Where
from ..evaluators.settings import AllowTorch, Sandbox
from .agent import agent_app
from .corpus import corpus_app
from .guard import guarded
from .machines import EvaluatorOption, GpuOption, Machines, RayAddressOption
from .options import (
    OUTPUT,
    BackendOption,
    DatasetOption,
    DeviceOption,
    JsonOption,
    NoSaveOption,
    ProblemOption,
    QuietOption,
    ResultsOption,
    ResumeOption,
    WorkloadOption,
)
from .protocols import EvaluationProtocol
from .report import report
from .trust import AllowTorchOption, BaselineOption, GraphOption, SandboxOption, Trust
from .tune import tune_app

SEARCH = "Optimization"
MODEL = "Language model"
BUDGET = "Budget"
PROTOCOL = "Protocol"

app = typer.Typer(
    name="kernelwright",
    help="Make GPU and CPU kernels faster, and prove it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(tune_app, name="tune")
app.add_typer(agent_app, name="agent")
app.add_typer(corpus_app, name="corpus")
app.command()(report)


class Format(StrEnum):
    PLAIN = "plain"
    JSON = "json"
    CSV = "csv"


@app.command()
def optimize(
    kernel: Annotated[
        str | None,
        typer.Option("--kernel", "-k", help="Kernel to optimize: a path, level2/2_10.py, 2_10.", metavar="REF"),
    ] = None,
    list_slow: Annotated[
        bool,
        typer.Option("--list-slow", "-l", help="List kernels slower than --threshold, the slowest first."),
    ] = False,
    batch: Annotated[
        str | None,
        typer.Option(help="Optimize every kernel named in a file, one a line; - reads standard input.", metavar="FILE"),
    ] = None,
    threshold: Annotated[float, typer.Option(help="Speedup below which --list-slow shows a kernel.")] = 0.8,
    format: Annotated[
        Format | None, typer.Option(help="Form of --list-slow: plain, json, csv. On a terminal a table.")
    ] = None,
    target_speedup: Annotated[
        float, typer.Option(help="Stop when this speedup is reached.", rich_help_panel=SEARCH)
    ] = 1.5,
    max_iterations: Annotated[int, typer.Option(help="At most this many turns.", rich_help_panel=SEARCH)] = 5,
    min_improvement: Annotated[
        float, typer.Option(help="Stop after three turns in a row that improve by less.", rich_help_panel=SEARCH)
    ] = 0.05,
    device: DeviceOption = "auto",
    backend: BackendOption = None,
    problem: ProblemOption = None,
    dataset: DatasetOption = None,
    workload: WorkloadOption = None,
    evaluator: EvaluatorOption = Where.LOCAL,
    gpu: GpuOption = None,
    ray_address: RayAddressOption = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Who proposes: openai/o3 or any provider/name, replay:FILE, files:DIR, or rules (the built-in "
            "rewriter). By default openai/o3 if OPENAI_API_KEY is set, else rules.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    analysis_model: Annotated[
        str | None, typer.Option(help="Another model for the analysis of bottlenecks.", rich_help_panel=MODEL)
    ] = None,
    api_base: Annotated[
        str | None,
        typer.Option(help="URL of an OpenAI-compatible server of your own.", rich_help_panel=MODEL, metavar="URL"),
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="The model's temperature.", rich_help_panel=MODEL)] = None,
    rag_k: Annotated[
        int | None, typer.Option(help="Worked examples shown to the model; 3 by default.", rich_help_panel=MODEL)
    ] = None,
    program: Annotated[
        Path | None,
        typer.Option(
            help="Instructions that 'kernelwright agent compile' saved.", rich_help_panel=MODEL, metavar="FILE"
        ),
    ] = None,
    no_wait: Annotated[
        bool,
        typer.Option(
            "--no-wait",
            help="With files:DIR, end with exit code 75 when a reply is missing; --resume goes on.",
            rich_help_panel=MODEL,
        ),
    ] = False,
    beam: Annotated[
        int, typer.Option(help="Candidates kept alive and expanded side by side.", rich_help_panel=SEARCH)
    ] = 1,
    max_tokens: Annotated[
        int | None, typer.Option(help="Stop when models have used so many tokens.", rich_help_panel=BUDGET)
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(help="Stop when models have cost so many dollars.", rich_help_panel=BUDGET)
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(help="Stop proposing after so many seconds.", rich_help_panel=BUDGET)
    ] = None,
    allow_torch: AllowTorchOption = AllowTorch.GLUE,
    sandbox: SandboxOption = Sandbox.AUTO,
    graph: GraphOption = False,
    baseline: BaselineOption = None,
    results: ResultsOption = Path("results"),
    resume: ResumeOption = False,
    no_save: NoSaveOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print changes and logs too.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Make a kernel faster over several turns, and write the fastest one that is proven right.

    Exit codes: 0 finished with a verified kernel, 1 failed, 2 wrong usage, 75 waiting for a reply (--no-wait).
    """
    from .request import Request

    request = Request(
        kernel=kernel,
        list_slow=list_slow,
        batch=batch,
        threshold=threshold,
        format=format.value if format else None,
        target_speedup=target_speedup,
        max_iterations=max_iterations,
        min_improvement=min_improvement,
        device=device,
        backend=backend.value if backend else None,
        problem=problem,
        dataset=dataset,
        workload=workload,
        machines=Machines(evaluator, gpu, ray_address),
        model=model,
        analysis_model=analysis_model,
        api_base=api_base,
        temperature=temperature,
        rag_k=rag_k,
        program=program,
        wait=not no_wait,
        beam=beam,
        max_tokens=max_tokens,
        max_cost=max_cost,
        time_limit=time_limit,
        trust=Trust.of(allow_torch, sandbox, graph, baseline),
        results=results,
        resume=resume,
        save=not no_save,
        json=json,
        quiet=quiet,
        verbose=verbose,
    )
    raise typer.Exit(_run(request))


@app.command()
def evaluate(
    kernel: Annotated[
        str | None,
        typer.Option("--kernel", "-k", help="Kernel to evaluate: a path, level2/2_10.py, 2_10.", metavar="REF"),
    ] = None,
    device: DeviceOption = "auto",
    backend: BackendOption = None,
    problem: ProblemOption = None,
    dataset: DatasetOption = None,
    workload: WorkloadOption = None,
    evaluator: EvaluatorOption = Where.LOCAL,
    gpu: GpuOption = None,
    ray_address: RayAddressOption = None,
    protocol: Annotated[
        EvaluationProtocol | None,
        typer.Option(
            help="Whose rules: strict, kernelbench (as KernelBench itself evaluates), or both side by side. By default "
            "strict, and kernelbench with --run-folder.",
            show_default=False,
            rich_help_panel=PROTOCOL,
        ),
    ] = None,
    run_folder: Annotated[
        Path | None,
        typer.Option(
            help="A KernelBench run folder: the kernel and its result are filed there. Without --kernel, every kernel "
            "in it that has no result yet is evaluated.",
            rich_help_panel=PROTOCOL,
            metavar="DIR",
        ),
    ] = None,
    sample_id: Annotated[
        int | None,
        typer.Option(
            help="Which attempt at its problem the kernel is in the run folder; 0 by default.", rich_help_panel=PROTOCOL
        ),
    ] = None,
    precision: Annotated[
        Precision | None,
        typer.Option(
            help="To what KernelBench's protocol casts weights and inputs; fp32 by default.", rich_help_panel=PROTOCOL
        ),
    ] = None,
    perf_trials: Annotated[
        int | None,
        typer.Option(help="How many calls KernelBench's protocol times; 100 by default.", rich_help_panel=PROTOCOL),
    ] = None,
    allow_torch: AllowTorchOption = AllowTorch.GLUE,
    sandbox: SandboxOption = Sandbox.AUTO,
    graph: GraphOption = False,
    baseline: BaselineOption = None,
    json: JsonOption = False,
) -> None:
    """Check a kernel against its reference and time it, once.

    Exit codes: 0 it is right, 1 it is not, 2 wrong usage.
    """
    from .evaluate import run_evaluate
    from .protocols import ProtocolOptions
    from .request import Request

    request = Request(
        kernel=kernel, device=device, backend=backend.value if backend else None, problem=problem,
        dataset=dataset, workload=workload, machines=Machines(evaluator, gpu, ray_address),
        trust=Trust.of(allow_torch, sandbox, graph, baseline), json=json,
    )  # fmt: skip
    options = ProtocolOptions(protocol, run_folder, sample_id, precision, perf_trials)
    raise typer.Exit(guarded(lambda: run_evaluate(request, options)))


@app.command()
def profile(
    kernel: Annotated[
        str, typer.Option("--kernel", "-k", help="Kernel to profile: a path, level2/2_10.py, 2_10.", metavar="REF")
    ],
    ncu: Annotated[
        bool, typer.Option("--ncu", help="Count with Nsight Compute too, on a GPU and where it is installed.")
    ] = False,
    device: DeviceOption = "auto",
    backend: BackendOption = None,
    problem: ProblemOption = None,
    dataset: DatasetOption = None,
    workload: WorkloadOption = None,
    allow_torch: AllowTorchOption = AllowTorch.GLUE,
    sandbox: SandboxOption = Sandbox.AUTO,
    json: JsonOption = False,
) -> None:
    """Say where a kernel's time goes, with the evidence.

    Exit codes: 0 it was profiled, 1 it is not right, 2 wrong usage.
    """
    from .profile import run_profile
    from .request import Request

    request = Request(
        kernel=kernel, device=device, backend=backend.value if backend else None, problem=problem, dataset=dataset,
        workload=workload, trust=Trust.of(allow_torch, sandbox, False, None), json=json,
    )  # fmt: skip
    raise typer.Exit(guarded(lambda: run_profile(request, ncu)))


def _run(request: object) -> int:
    """Dispatch, and turn a user's mistake into one line and exit code 2."""
    from . import dispatch

    return guarded(
        lambda: dispatch.run(request),  # type: ignore[arg-type]
        "interrupted; the same command with --resume goes on from here",
    )


def main() -> None:
    """`kernelwright COMMAND`."""
    app()


def optimize_main() -> None:
    """`optimize`, short for `kernelwright optimize`."""
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command()(optimize)
    single()
