"""Rules that are applied while something else runs."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from kernelwright.agent.rule_proposer import RuleProposer
from kernelwright.agent.rules import Machine, Rewritten
from kernelwright.core import PythonKernel

from .made_up import run
from .scripted_rules import START, Times, tried


@pytest.mark.failing_rules
def test_rules_that_are_applied_ahead_are_waited_for_and_not_applied_again(tmp_path: Path) -> None:
    begun, go = threading.Event(), threading.Event()

    @dataclass(frozen=True)
    class Slow(Times):
        def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten:
            begun.set()
            assert go.wait(60)
            return super().apply(kernel, machine)

    rules = Times("broken", 0.5, broken=True), Slow("half", 0.5), Times("third", 0.3)
    proposer = RuleProposer(Machine(cores=2), rules)
    proposer.prepare(START)
    assert begun.wait(60), "before anything is asked for"
    threading.Timer(0.3, go.set).start()
    found = run(tmp_path, START, proposer)
    assert tried(found.turns[0]) == {"half": 2.0, "third": 3.33, "third + half": 6.67}
    assert [rule.applied.count("RESULT") for rule in rules] == [0, 1, 1]


@pytest.mark.failing_rules
def test_a_rule_that_fails_ahead_is_told_once_and_costs_itself_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @dataclass(frozen=True)
    class Failing(Times):
        def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten:
            raise KeyError("no such thing")

    proposer = RuleProposer(Machine(cores=2), [Failing("failing", 0.5), Times("half", 0.5)])
    proposer.prepare(START)
    first, *_ = run(tmp_path, START, proposer).turns
    assert tried(first) == {"half": 2.0}
    assert [(skipped.rule, skipped.reason) for skipped in first.skipped_rules] == [
        ("failing", "KeyError: 'no such thing'")
    ]
    assert len([record for record in caplog.records if "rule failed: failing" in record.getMessage()]) >= 1
