"""What a run shows of rules that made no change."""

from __future__ import annotations

import pytest
from kernelwright.cli.screens import Display
from kernelwright.cli.terminal import RunLines
from kernelwright.core.events import RulesSkipped, RunStarted
from kernelwright.core.turn_record import SkippedRule

RULES = [
    SkippedRule(rule="split-k", reason="no product"),
    SkippedRule(rule="licm", reason="KeyError: 'x'", failed=True),
]
FAILED = "  rule failed: licm: KeyError: 'x' (a bug: please report it)\n"


@pytest.mark.parametrize(
    ("verbose", "expected"), [(False, FAILED), (True, f"  rule split-k does not fit: no product\n{FAILED}")]
)
def test_a_rule_that_failed_is_shown_and_why_others_do_not_fit_with_verbose(
    capsys: pytest.CaptureFixture[str], verbose: bool, expected: str
) -> None:
    lines = RunLines(Display(verbose=verbose))
    lines.emit(RunStarted("level1/1_1", "triton", "tiny", "cpu", 1.5, "the reference", 1, 1, by_model=False))
    capsys.readouterr()
    lines.emit(RulesSkipped("1.0", tuple(RULES)))
    assert capsys.readouterr().out == expected
