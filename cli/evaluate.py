"""`kernelwright evaluate`: one kernel, or all of a KernelBench run folder, on the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from rich.markup import escape

from ..api.evaluate import FolderResult, run_evaluate, run_evaluate_folder
from ..api.evaluate_solution import is_solution
from ..api.options.evaluate import EvaluateOptions
from ..api.verdicts import ProtocolVerdicts
from .comparison import comparison_table, describe_fast_p
from .evaluate_solution import show_evaluate_solution
from .parameters import chosen
from .render import Display, Screen, describe_evaluation


def show_evaluate(given: Mapping[str, Any], display: Display) -> int:
    """Evaluate; 0 when every kernel is correct by every protocol that was asked for."""
    options = chosen(given, EvaluateOptions)
    screen = Screen(display)
    if is_solution(options):
        return show_evaluate_solution(options, screen)
    if options.kernel is None:
        return _show_folder(run_evaluate_folder(options, screen), screen)
    verdicts = run_evaluate(options, screen)
    if display.json:
        print(json.dumps(verdicts.record()), file=sys.stdout)
        return 0 if verdicts.correct else 1
    if verdicts.evaluation is not None:
        screen.print(describe_evaluation(verdicts, verdicts.evaluation))
    if verdicts.result is not None:
        screen.print(comparison_table([verdicts]))
        _explain(verdicts, screen)
    return 0 if verdicts.correct else 1


def _show_folder(result: FolderResult, screen: Screen) -> int:
    if screen.display.json:
        print(json.dumps(result.record()), file=sys.stdout)
    else:
        if result.verdicts:
            screen.print(comparison_table(result.verdicts))
        for verdicts in result.verdicts:
            _explain(verdicts, screen)
        screen.print(describe_fast_p(result.speedups))
    return 0 if result.correct else 1


def _explain(verdicts: ProtocolVerdicts, screen: Screen) -> None:
    """Lines beneath the table."""
    if verdicts.result is not None and verdicts.result.reason:
        screen.print(f"{escape(verdicts.problem)}, kernelbench: {escape(verdicts.result.reason)}")
    if verdicts.refusal:
        screen.print(f"{escape(verdicts.problem)}, strict: {escape(verdicts.refusal)}")
    if verdicts.remark:
        screen.print(f"{escape(verdicts.problem)}: {escape(verdicts.remark)}")
