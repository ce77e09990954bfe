"""Rules that are applied while something else runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from kernelwright.agent.rule_proposer import RuleProposer
from kernelwright.agent.rules.rule import Machine, Rewritten
from kernelwright.core import Kernel

from .made_up import run
from .test_rule_proposer import START, Times, tried


def test_rules_that_were_applied_ahead_are_not_applied_again(tmp_path: Path) -> None:
    rules = Times("broken", 0.5, broken=True), Times("half", 0.5), Times("third", 0.3)
    unprepared, proposer = RuleProposer(Machine(cores=2), rules), RuleProposer(Machine(cores=2), rules)
    expected = run(tmp_path / "as ever", START, unprepared)
    for rule in rules:
        rule.applied.clear()
    proposer.prepare(START)
    found = run(tmp_path / "ahead", START, proposer)
    assert tried(found.turns[0]) == tried(expected.turns[0]) == {"half": 2.0, "third": 3.33, "third + half": 6.67}
    assert all(rule.applied.count("RESULT") == 1 for rule in rules[1:])


def test_an_error_that_no_rule_foresees_is_raised_where_it_is_asked_for(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Failing(Times):
        def apply(self, kernel: Kernel, machine: Machine) -> Rewritten | None:
            raise KeyError("no such thing")

    proposer = RuleProposer(Machine(cores=2), [Failing("failing", 0.5)])
    proposer.prepare(START)
    with pytest.raises(KeyError, match="no such thing"):
        run(tmp_path, START, proposer)
