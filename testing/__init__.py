"""What every tuner, evaluator, rule, kernel language and retriever must do, as classes of tests for pytest.

Derive a class whose name begins with `Test`, and override the fixtures that say what is tested (docs/testing.md).
kernelwright's own are tested by the same classes. Each is imported when it is first used.
"""

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .evaluator import EvaluatorSuite, JudgeSuite, ScreenerSuite
    from .language import LanguageSuite
    from .odd_sources import FORMS
    from .retriever import RetrieverSuite
    from .rule import CheckedRuleSuite, RuleSuite, attempted, fired, shipped_case
    from .scale import SCALE_KERNEL, SCALE_PROBLEM, scale_kernel, scale_problem
    from .tuner import AdaptiveTunerSuite, SeededTunerSuite, TunerSuite
    from .workers import EvaluatorEntrySuite

__all__ = [
    "FORMS",
    "SCALE_KERNEL",
    "SCALE_PROBLEM",
    "AdaptiveTunerSuite",
    "CheckedRuleSuite",
    "EvaluatorEntrySuite",
    "EvaluatorSuite",
    "JudgeSuite",
    "LanguageSuite",
    "RetrieverSuite",
    "RuleSuite",
    "ScreenerSuite",
    "SeededTunerSuite",
    "TunerSuite",
    "attempted",
    "fired",
    "scale_kernel",
    "scale_problem",
    "shipped_case",
]

_HOMES = {
    "evaluator": ("EvaluatorSuite", "JudgeSuite", "ScreenerSuite"),
    "language": ("LanguageSuite",),
    "odd_sources": ("FORMS",),
    "retriever": ("RetrieverSuite",),
    "rule": ("CheckedRuleSuite", "RuleSuite", "attempted", "fired", "shipped_case"),
    "scale": ("SCALE_KERNEL", "SCALE_PROBLEM", "scale_kernel", "scale_problem"),
    "tuner": ("AdaptiveTunerSuite", "SeededTunerSuite", "TunerSuite"),
    "workers": ("EvaluatorEntrySuite",),
}
# A failing assertion in them is explained as one in a test's own file.
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _HOMES))


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
