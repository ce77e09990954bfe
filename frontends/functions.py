"""The functions that `kernelwright` exports: each takes the options of its command by name and returns a record.

A mistake raises a `KernelwrightError` (see `core/errors.py` for the tree). A kernel that fails is not an error: the
record has its status.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ..api.options.check import CheckOptions
from ..api.options.corpus import AddOptions, ImportOptions, ListOptions, VerifyOptions
from ..api.options.evaluate import EvaluateOptions, ProfileOptions
from ..api.options.mlir import MlirOptions
from ..api.options.optimize import BatchOptions, ListSlowOptions, OptimizeOptions
from ..api.options.option import documented
from ..api.options.program import CompileOptions
from ..api.options.report import ReportOptions
from ..api.options.retrieve import RetrieveOptions
from ..api.options.tune import ExportOptions, ReplayOptions
from ..commands import plan as plan_command
from ..commands.tune import gemm as gemm_command
from ..commands.tune import kernel as tune_kernel
from ..runtime.runtime import Runtime

if TYPE_CHECKING:
    from ..agent.history.run import History
    from ..api.batch import BatchResult
    from ..api.check_result import CheckResult
    from ..api.compile_program import ProgramResult
    from ..api.corpus import AddResult
    from ..api.evaluate import FolderResult
    from ..api.evaluate_solution import SolutionResult
    from ..api.export import ExportResult
    from ..api.import_runs import ImportResult
    from ..api.list_slow import Listing
    from ..api.mlir_result import MlirResult
    from ..api.optimize_result import OptimizeResult
    from ..api.profile import ProfileResult
    from ..api.replay import ReplayResult
    from ..api.report import ReportResult
    from ..api.verdicts import ProtocolVerdicts
    from ..api.verify_corpus import VerifyResult
    from ..core import Hit, WorkedExample
    from ..core.events import Emit
    from ..evaluators.pipeline.saved_plan import SavedPlan
    from ..runtime.command import Command
    from ..runtime.result import Result

P = ParamSpec("P")
R = TypeVar("R")


def takes(options: Callable[P, Any]) -> Callable[[Callable[[Any, Emit], R]], Callable[P, R]]:
    """A function of an option object as a function of its fields, with the same names, types and defaults."""

    def decorate(function: Callable[[Any, Emit], R]) -> Callable[P, R]:
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            from ..core.events import ignore

            given = options(*args, **kwargs)
            return function(given, given.on_event or ignore)

        documented(run, function, options)
        return run

    return decorate


@takes(OptimizeOptions)
def optimize(options: OptimizeOptions, emit: Emit) -> OptimizeResult:
    """Make a kernel faster over several turns, and write the fastest one that is verified."""
    from ..api.optimize import run_optimize

    return run_optimize(options, emit)


@takes(BatchOptions)
def batch(options: BatchOptions, emit: Emit) -> BatchResult:
    """Optimize many kernels, one after the other; a failure ends one of them only."""
    from ..api.batch import run_batch

    return run_batch(options, emit)


@takes(ListSlowOptions)
def list_slow(options: ListSlowOptions, emit: Emit) -> Listing:
    """Measure kernels, and problems without one, where no current record exists, and rank them, the slowest first."""
    from ..api.list_slow import run_list_slow

    return run_list_slow(options, emit)


@takes(EvaluateOptions)
def evaluate(options: EvaluateOptions, emit: Emit) -> ProtocolVerdicts:
    """Check a kernel against its reference and time it, once."""
    from ..api.evaluate import run_evaluate
    from ..core import OptionError

    if options.kernel is None:
        raise OptionError("there is no kernel to evaluate", "name one, or use `evaluate_folder`")
    return run_evaluate(options, emit)


@takes(EvaluateOptions)
def evaluate_folder(options: EvaluateOptions, emit: Emit) -> FolderResult:
    """Evaluate every kernel of a KernelBench run folder that has no result yet."""
    from ..api.evaluate import run_evaluate_folder

    return run_evaluate_folder(options, emit)


@takes(EvaluateOptions)
def evaluate_solution(options: EvaluateOptions, emit: Emit) -> SolutionResult:
    """Evaluate a Solution of a dataset of recorded workloads on each Workload, and append the Traces."""
    from ..api.evaluate_solution import run_evaluate_solution

    return run_evaluate_solution(options, emit)


@takes(CheckOptions)
def check(options: CheckOptions, emit: Emit) -> CheckResult:
    """Check kernels, and compare their speed with what was stored of the same device."""
    from ..api.check import run_check

    return run_check(options, emit)


@takes(plan_command.Options)
def plan(options: plan_command.Options, emit: Emit) -> plan_command.Result:
    """Show what one call of a kernel launches, and replay it without the kernel's Python."""
    with Runtime(emit) as runtime:
        return plan_command.run(plan_command.plan(options, runtime), emit)


def load_plan(folder: str | Path, device: str = "cpu", sandbox: str = "auto") -> SavedPlan:
    """Load a plan that `plan(..., save_plan=folder)` wrote.

    Call it with a list of inputs and a mapping from names to weights, tensors of the shapes, strides and dtypes that
    the kernel was recorded with; it returns what the kernel's `forward` would. The plan may be anybody's: a
    process of its own executes it, isolated by `sandbox` (auto, bwrap, landlock or none), until `close` ends it. Raises
    `ResultsError` where the folder holds no plan that can be executed here.
    """
    from ..core import OptionError
    from ..evaluators.pipeline.saved_plan import load_plan
    from ..evaluators.settings import Sandbox

    if sandbox not in list(Sandbox):
        raise OptionError(f"`sandbox`: {sandbox!r}", f"take one of {', '.join(Sandbox)}")
    return load_plan(Path(folder), device, Sandbox(sandbox))


@takes(ProfileOptions)
def profile(options: ProfileOptions, emit: Emit) -> ProfileResult:
    """Evaluate a kernel and find its bottleneck."""
    from ..api.profile import run_profile

    return run_profile(options, emit)


@takes(RetrieveOptions)
def retrieve(options: RetrieveOptions, emit: Emit) -> list[Hit]:
    """Up to `k` worked optimizations, the best first."""
    from ..api.retrieve import run_retrieve

    return run_retrieve(options, emit)


def load_history(path: Path | str) -> History:
    """The run at `path`, a journal or a results folder: turns, trials, exchanges with models, costs.

    Raises `JournalError` when there is no run, when a folder holds several, and when a file is corrupt.
    """
    from ..agent.history.run import load_history as load

    return load(path)


@takes(tune_kernel.Options)
def tune(options: tune_kernel.Options, emit: Emit) -> tune_kernel.Result:
    """Search the parameters of a kernel, and write the best config into a copy of it."""
    with Runtime(emit) as runtime:
        return tune_kernel.run(tune_kernel.plan(options, runtime), emit)


@takes(gemm_command.Options)
def tune_gemm(options: gemm_command.Options, emit: Emit) -> gemm_command.Result:
    """Tune a matrix product over a table of shapes, and write an engine's config files."""
    with Runtime(emit) as runtime:
        return gemm_command.run(gemm_command.plan(options, runtime), emit)


@takes(MlirOptions)
def tune_mlir(options: MlirOptions, emit: Emit) -> MlirResult:
    """Schedule the operations of an MLIR module that IREE compiles, and write the module and its tuning spec."""
    from ..api.mlir import run_mlir

    return run_mlir(options, emit)


@takes(ReplayOptions)
def replay(options: ReplayOptions, emit: Emit) -> ReplayResult:
    """Let tuners search a recorded space, without a device: how many evaluations they need.

    It starts processes, so a script must call it under `if __name__ == "__main__"`.
    """
    from ..api.replay import run_replay

    return run_replay(options, emit)


@takes(ExportOptions)
def export(options: ExportOptions, emit: Emit) -> ExportResult:
    """Write a recorded search in another form."""
    from ..api.export import run_export

    return run_export(options)


@takes(VerifyOptions)
def verify_corpus(options: VerifyOptions, emit: Emit) -> VerifyResult:
    """Check that both kernels of each worked example are correct, and measure how much faster the second one is."""
    from ..api.verify_corpus import run_verify

    return run_verify(options, emit)


@takes(AddOptions)
def add_example(options: AddOptions, emit: Emit) -> AddResult:
    """Write the verified improvement of a run as a worked example, for oneself or for others."""
    from ..api.corpus import run_add

    return run_add(options)


@takes(ImportOptions)
def import_runs(options: ImportOptions, emit: Emit) -> ImportResult:
    """Enter runs of others, or of before journals were signed, into the archive."""
    from ..api.import_runs import run_import

    return run_import(options)


@takes(ListOptions)
def list_examples(options: ListOptions, emit: Emit) -> list[WorkedExample]:
    """The worked examples: the shipped ones and the user's own, or those of a folder."""
    from ..api.corpus import run_list

    return run_list(options)


@takes(CompileOptions)
def compile_program(options: CompileOptions, emit: Emit) -> ProgramResult:
    """Improve the instructions that models follow: try them on recorded problems, keep what measures better."""
    from ..api.compile_program import run_compile

    return run_compile(options, emit)


@takes(ReportOptions)
def report(options: ReportOptions, emit: Emit) -> ReportResult:
    """Write one HTML page about a run; about several runs of a folder a page for each, and one that lists them."""
    from ..api.report import run_report

    return run_report(options, emit)


def function_of(command: Command) -> Callable[..., Result]:
    """Return a command of the registry as a function of its options, which returns its result."""

    def run(options: Any, emit: Emit) -> Result:
        return command.call(options, emit)

    run.__name__, run.__doc__ = command.name, command.help
    return takes(command.options)(run)
