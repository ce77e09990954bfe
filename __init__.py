"""kernelwright: makes kernels faster and proves it. Importing it imports nothing else; names load when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api.attention import ScheduleOptimizer, tune_attention
    from .api.options.attention import AttentionConfig
    from .core.errors import KernelwrightError
    from .frontends.functions import (
        add_example,
        batch,
        check,
        compile_program,
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
        tune_gemm,
        tune_mlir,
        verify_corpus,
    )

__version__ = "0.1.0"

_ELSEWHERE = {
    "AttentionConfig": "api.options.attention",
    "KernelwrightError": "core.errors",
    "ScheduleOptimizer": "api.attention",
    "tune_attention": "api.attention",
}
"""Homes of what is not one of `frontends.functions`."""
__all__ = [
    "AttentionConfig",
    "KernelwrightError",
    "ScheduleOptimizer",
    "add_example",
    "batch",
    "check",
    "compile_program",
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
    "tune",
    "tune_attention",
    "tune_gemm",
    "tune_mlir",
    "verify_corpus",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in __all__:
        command = None if name.startswith("_") else import_module(".runtime.command", __name__).find_command(name)
        if command is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module(".frontends.functions", __name__).function_of(command)
    return getattr(import_module(f".{_ELSEWHERE.get(name, 'frontends.functions')}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
