"""kernelwright: makes kernels faster and proves it. Importing it imports nothing else; names load when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api.attention import ScheduleOptimizer, tune_attention
    from .api.functions import (
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
    from .api.observers import (
        CheckObserver,
        GemmObserver,
        MlirObserver,
        Observer,
        ReplayObserver,
        RunObserver,
        SearchObserver,
        VerifyObserver,
    )
    from .api.options.attention import AttentionConfig
    from .core.errors import KernelwrightError

__version__ = "0.1.0"

_ELSEWHERE = {
    "AttentionConfig": "api.options.attention",
    "KernelwrightError": "core.errors",
    "ScheduleOptimizer": "api.attention",
    "tune_attention": "api.attention",
}
"""Homes of what is neither one of `api.functions` nor an observer."""
__all__ = [
    "AttentionConfig",
    "CheckObserver",
    "GemmObserver",
    "KernelwrightError",
    "MlirObserver",
    "Observer",
    "ReplayObserver",
    "RunObserver",
    "ScheduleOptimizer",
    "SearchObserver",
    "VerifyObserver",
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
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = _ELSEWHERE.get(name) or ("api.observers" if name.endswith("Observer") else "api.functions")
    return getattr(import_module(f".{home}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
