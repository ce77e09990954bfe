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
        verify_corpus,
    )
    from .api.observers import (
        CheckObserver,
        GemmObserver,
        Observer,
        ReplayObserver,
        RunObserver,
        SearchObserver,
        VerifyObserver,
    )
    from .api.options.attention import AttentionConfig
    from .core.errors import KernelwrightError

__version__ = "0.1.0"

_HOMES = {
    **dict.fromkeys(
        (
            "add_example",
            "batch",
            "check",
            "compile_program",
            "evaluate",
            "evaluate_folder",
            "evaluate_solution",
            "export",
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
            "tune_gemm",
            "verify_corpus",
        ),
        "api.functions",
    ),
    **dict.fromkeys(
        (
            "CheckObserver",
            "GemmObserver",
            "Observer",
            "ReplayObserver",
            "RunObserver",
            "SearchObserver",
            "VerifyObserver",
        ),
        "api.observers",
    ),
    **dict.fromkeys(("ScheduleOptimizer", "tune_attention"), "api.attention"),
    "AttentionConfig": "api.options.attention",
    "KernelwrightError": "core.errors",
}
__all__ = [
    "AttentionConfig",
    "CheckObserver",
    "GemmObserver",
    "KernelwrightError",
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
    "verify_corpus",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
