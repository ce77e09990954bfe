"""What `kernelwright` exports: functions that take the options of a command by name and return a record, and sessions.

A mistake raises a `KernelwrightError` (see `core/errors.py` for the tree). A kernel that fails is not an error: the
record has its status. A session has the functions as methods, on one device, with evaluation servers that are kept
between calls.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from .commands._evaluate import Options as EvaluateOptions
from .core import OptionError
from .core.events import Emit, ignore
from .evaluators.pipeline.kept_processes import KeptProcesses
from .runtime.command import command_named, find_commands
from .runtime.devices import choose_devices
from .runtime.options.groups import DeviceOptions
from .runtime.options.option import documented
from .runtime.options.trust import SandboxOptions
from .runtime.runtime import Runtime

if TYPE_CHECKING:
    from . import python_api as functions
    from .agent.history.run import History
    from .commands._evaluate.folder import FolderResult
    from .commands._evaluate.solution import SolutionResult
    from .commands._evaluate.verdict import Result as Verdict
    from .evaluators.pipeline.saved_plan import SavedPlan
    from .runtime.command import Command
    from .runtime.result import Result


P = ParamSpec("P")
R = TypeVar("R")
_FIXED = ("device", "sandbox")


class Work(NamedTuple):
    """Runs a function of this module with its options in one object."""

    options: Any
    do: Callable[[Any, Runtime], Any]

    def carried_out(self, given: Any, kept: KeptProcesses | None = None) -> Any:
        """Run it in a new runtime, with new or kept processes."""
        with Runtime(given.on_event or ignore, kept) as runtime:
            return self.do(given, runtime)


def takes(options: Callable[P, Any]) -> Callable[[Callable[[Any, Runtime], R]], Callable[P, R]]:
    """A function of an option object as a function of its fields, with the same names, types and defaults.

    Its `work` runs it with kept processes, for a `Session`.
    """

    def decorate(function: Callable[[Any, Runtime], R]) -> Callable[P, R]:
        work = Work(options, function)

        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            found: R = work.carried_out(options(*args, **kwargs))
            return found

        documented(run, function, options)
        run.work = work  # type: ignore[attr-defined]
        return run

    return decorate


@takes(EvaluateOptions)
def evaluate(options: EvaluateOptions, runtime: Runtime) -> Verdict:
    """Check a kernel against its reference and time it, once."""
    from .commands import evaluate as command

    if options.kernel is None:
        raise OptionError("there is no kernel to evaluate", "name one, or use `evaluate_folder`")
    return command.run_kernel(command.plan_kernel(options, options.kernel, runtime), runtime.emit)


@takes(EvaluateOptions)
def evaluate_folder(options: EvaluateOptions, runtime: Runtime) -> FolderResult:
    """Evaluate every kernel of a KernelBench run folder that has no result yet."""
    from .commands._evaluate import folder

    return folder.run(folder.plan(options, runtime), runtime.emit)


@takes(EvaluateOptions)
def evaluate_solution(options: EvaluateOptions, runtime: Runtime) -> SolutionResult:
    """Evaluate a Solution of a dataset of recorded workloads on each Workload, and append the Traces."""
    from .commands._evaluate import solution

    return solution.run(solution.plan(options, runtime), runtime.emit)


def load_plan(folder: str | Path, device: str = "cpu", sandbox: str = "auto") -> SavedPlan:
    """Load a plan that `plan(..., save_plan=folder)` wrote.

    Call it with a list of inputs and a mapping from names to weights, tensors of the shapes, strides and dtypes that
    the kernel was recorded with; it returns what the kernel's `forward` would. The plan may be anybody's: a
    separate process executes it, isolated by `sandbox` (auto, bwrap, landlock or none), until `close` ends it. Raises
    `ResultsError` where the folder holds no plan that can be executed here.
    """
    from .evaluators.pipeline.saved_plan import load_plan
    from .evaluators.settings import Sandbox

    if sandbox not in list(Sandbox):
        raise OptionError(f"`sandbox`: {sandbox!r}", f"take one of {', '.join(Sandbox)}")
    return load_plan(Path(folder), device, Sandbox(sandbox))


def load_history(path: Path | str) -> History:
    """The run at `path`, a journal or a results folder: turns, trials, exchanges with models, costs.

    Raises `JournalError` when there is no run, when a folder holds several, and when a file is corrupt.
    """
    from .agent.history.run import load_history as load

    return load(path)


def names() -> set[str]:
    """Return the names of all functions that have `work`."""
    return {name for name, value in globals().items() if hasattr(value, "work")} | {
        command.name for command in find_commands()
    }


def function_of(command: Command) -> Callable[..., Result]:
    """Return a command of the registry as a function of its options, which returns its result."""

    def run(options: Any, runtime: Runtime) -> Result:
        return command.call(options, runtime)

    run.__name__, run.__doc__ = command.name, command.help
    return takes(command.options)(run)


if TYPE_CHECKING:
    # The functions of commands, for type checkers; `__getattr__` makes them.
    from .commands import batch as batch_command
    from .commands import check as check_command
    from .commands import deploy as deploy_command
    from .commands import list_slow as list_slow_command
    from .commands import optimize as optimize_command
    from .commands import plan as plan_command
    from .commands import profile as profile_command
    from .commands import report as report_command
    from .commands import retrieve as retrieve_command
    from .commands.agent import compile as compile_command
    from .commands.corpus import add as add_command
    from .commands.corpus import import_ as import_command
    from .commands.corpus import list as list_command
    from .commands.corpus import verify as verify_command
    from .commands.tune import decoding as decoding_command
    from .commands.tune import export as export_command
    from .commands.tune import gemm as gemm_command
    from .commands.tune import kernel as tune_command
    from .commands.tune import mlir as mlir_command
    from .commands.tune import replay as replay_command

    def _typed(options: Callable[P, Any], run: Callable[..., R]) -> Callable[P, R]: ...

    add_example = _typed(add_command.Options, add_command.run)
    batch = _typed(batch_command.Options, batch_command.run)
    check = _typed(check_command.Options, check_command.run)
    compile_program = _typed(compile_command.Options, compile_command.run)
    deploy_operator = _typed(deploy_command.Options, deploy_command.run)
    export = _typed(export_command.Options, export_command.run)
    import_runs = _typed(import_command.Options, import_command.run)
    list_examples = _typed(list_command.Options, list_command.run)
    list_slow = _typed(list_slow_command.Options, list_slow_command.run)
    optimize = _typed(optimize_command.Options, optimize_command.run)
    plan = _typed(plan_command.Options, plan_command.run)
    profile = _typed(profile_command.Options, profile_command.run)
    replay = _typed(replay_command.Options, replay_command.run)
    report = _typed(report_command.Options, report_command.run)
    retrieve = _typed(retrieve_command.Options, retrieve_command.run)
    tune = _typed(tune_command.Options, tune_command.run)
    tune_decoding = _typed(decoding_command.Options, decoding_command.run)
    tune_gemm = _typed(gemm_command.Options, gemm_command.run)
    tune_mlir = _typed(mlir_command.Options, mlir_command.run)
    verify_corpus = _typed(verify_command.Options, verify_command.run)


def __getattr__(name: str) -> Callable[..., Result]:
    command = None if name.startswith("_") else command_named(name)
    if command is None:
        raise AttributeError(f"there is no function {name!r}")
    globals()[name] = function = function_of(command)
    return function


@dataclasses.dataclass(frozen=True, kw_only=True)
class SessionOptions(SandboxOptions, DeviceOptions):
    """Options that a session sets for all calls."""


class Session:
    """Calls the functions of `kernelwright` as methods, with the same options except `device` and `sandbox`.

    The first call starts servers. Later calls with the same limits and precision reuse them, until `close`, the end of
    a `with` block, or the exit of Python. Sessions may be used from several threads: concurrent calls have their own
    servers, and take turns to measure. `on_event` is the default of calls.

    Raises `DeviceError` for a device that does not exist, and `OptionError` for calls after `close`.
    """

    if TYPE_CHECKING:  # the methods, for type checkers, which cannot leave options out; `__getattr__` makes them
        add_example = staticmethod(functions.add_example)
        batch = staticmethod(functions.batch)
        check = staticmethod(functions.check)
        compile_program = staticmethod(functions.compile_program)
        deploy_operator = staticmethod(functions.deploy_operator)
        evaluate = staticmethod(functions.evaluate)
        evaluate_folder = staticmethod(functions.evaluate_folder)
        evaluate_solution = staticmethod(functions.evaluate_solution)
        export = staticmethod(functions.export)
        import_runs = staticmethod(functions.import_runs)
        list_examples = staticmethod(functions.list_examples)
        list_slow = staticmethod(functions.list_slow)
        optimize = staticmethod(functions.optimize)
        plan = staticmethod(functions.plan)
        profile = staticmethod(functions.profile)
        replay = staticmethod(functions.replay)
        report = staticmethod(functions.report)
        retrieve = staticmethod(functions.retrieve)
        tune = staticmethod(functions.tune)
        tune_decoding = staticmethod(functions.tune_decoding)
        tune_gemm = staticmethod(functions.tune_gemm)
        tune_mlir = staticmethod(functions.tune_mlir)
        verify_corpus = staticmethod(functions.verify_corpus)

    def __init__(self, *, device: str = "auto", sandbox: str = "auto", on_event: Emit | None = None) -> None:
        options = SessionOptions(device=device, sandbox=sandbox, on_event=on_event)  # type: ignore[arg-type]
        choose_devices(options.device)
        self._fixed: Mapping[str, Any] = {name: getattr(options, name) for name in _FIXED}
        self._on_event = on_event
        self._kept = KeptProcesses()
        self._end = weakref.finalize(self, self._kept.close)

    def close(self) -> None:
        """Stop the servers. Those of a call that still runs in another thread stop when it ends."""
        self._end()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return not self._end.alive

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        work: Work | None = getattr(getattr(_package(), name, None), "work", None)
        if work is None:
            raise AttributeError(f"a session has no function {name!r}")
        taken = {field.name for field in dataclasses.fields(work.options)}
        fixed = {option: value for option, value in self._fixed.items() if option in taken}

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.closed:
                raise OptionError("the session is closed", "open another one")
            for option in fixed.keys() & kwargs.keys():
                raise OptionError(f"`{option}` is the session's: {fixed[option]}", "leave it out of the call")
            return work.carried_out(work.options(*args, **{"on_event": self._on_event, **kwargs, **fixed}), self._kept)

        documented(call, work.do, work.options, without=fixed)
        return call

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *names() & {*_package().__all__}})


def _package() -> Any:
    """Return the root package. Some of its functions come from elsewhere, and take no session."""
    return import_module(__package__ or "")
