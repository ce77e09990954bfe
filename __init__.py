"""kernelwright: makes kernels faster and proves it. Importing it imports nothing else; names load when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agent.rules import Rule
    from .core import Config, Evaluation, Evaluator, Kernel, Problem, SearchSpace, Tuner
    from .core.errors import KernelwrightError
    from .deploy.models.steps import step
    from .python_api import (
        Session,
        add_example,
        batch,
        check,
        compile_program,
        deploy_operator,
        evaluate,
        evaluate_folder,
        evaluate_solution,
        export,
        import_runs,
        list_examples,
        list_slow,
        load_history,
        load_plan,
        optimize,
        plan,
        profile,
        replay,
        report,
        retrieve,
        tune,
        tune_decoding,
        tune_gemm,
        tune_mlir,
        verify_corpus,
    )
    from .runtime.attention import ScheduleOptimizer, tune_attention
    from .runtime.options.attention import AttentionConfig
    from .tuners.catalogue import TunerArguments, TunerEntry, create_tuner

__version__ = "0.1.0"

_ELSEWHERE = {
    **dict.fromkeys(("Config", "Evaluation", "Evaluator", "Kernel", "Problem", "SearchSpace", "Tuner"), "core"),
    "KernelwrightError": "core.errors",
    "step": "deploy.models.steps",
    "Rule": "agent.rules",
    **dict.fromkeys(("TunerArguments", "TunerEntry", "create_tuner"), "tuners.catalogue"),
    "AttentionConfig": "runtime.options.attention",
    **dict.fromkeys(("ScheduleOptimizer", "tune_attention"), "runtime.attention"),
}
"""Homes of what is not one of `python_api`."""
__all__ = [
    "AttentionConfig",
    "Config",
    "Evaluation",
    "Evaluator",
    "Kernel",
    "KernelwrightError",
    "Problem",
    "Rule",
    "ScheduleOptimizer",
    "SearchSpace",
    "Session",
    "Tuner",
    "TunerArguments",
    "TunerEntry",
    "add_example",
    "batch",
    "check",
    "compile_program",
    "create_tuner",
    "deploy_operator",
    "evaluate",
    "evaluate_folder",
    "evaluate_solution",
    "export",
    "import_runs",
    "list_examples",
    "list_slow",
    "load_history",
    "load_plan",
    "optimize",
    "plan",
    "profile",
    "replay",
    "report",
    "retrieve",
    "step",
    "tune",
    "tune_attention",
    "tune_decoding",
    "tune_gemm",
    "tune_mlir",
    "verify_corpus",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in __all__ or _is_command(name):
        return getattr(import_module(f".{_ELSEWHERE.get(name, 'python_api')}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _is_command(name: str) -> bool:
    """Return whether `commands/` has a module of this name, or another package registers such a command.

    It is known without an import of commands: pickling asks every module for names, also in workers, which may not read
    most of this package.
    """
    import os

    from .entry_points import points_of

    if name.startswith("_"):
        return False
    own = os.path.join(os.path.dirname(__file__), "commands", f"{name}.py")  # noqa: PTH118, PTH120 (imports nothing)
    points = points_of("kernelwright.commands")
    return os.path.exists(own) or any(point.name.replace(" ", "_").replace("-", "_") == name for point in points)  # noqa: PTH110


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
