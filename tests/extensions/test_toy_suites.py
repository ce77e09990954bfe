"""The tuner, the evaluator and the rule of another package pass the published suites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from kernelwright.agent.rule_proposer import RuleProposer
from kernelwright.agent.rules import RULES, Machine, Rule, known_rules
from kernelwright.core import PythonKernel, TorchProblem
from kernelwright.remote import EvaluatorEntry
from kernelwright.testing import CheckedRuleSuite, EvaluatorEntrySuite, TunerSuite, shipped_case
from kernelwright.tuners import catalogue
from kernelwright.tuners.catalogue import TunerEntry


class TestLastFirst(TunerSuite):
    @pytest.fixture
    def entry(self, toy: Path) -> TunerEntry:
        return catalogue.entry("last_first")


class TestNextDoor(EvaluatorEntrySuite):
    @pytest.fixture
    def entry(self, toy: Path) -> EvaluatorEntry:
        from kernelwright_toy.evaluator import next_door

        assert isinstance(next_door, EvaluatorEntry)
        return next_door


class TestBypassL1(CheckedRuleSuite):
    @pytest.fixture
    def rule(self, toy: Path) -> Rule:
        return known_rules()[-1]

    @pytest.fixture
    def cases(self) -> Sequence[tuple[PythonKernel, TorchProblem]]:
        return [shipped_case("1_19", "triton"), shipped_case("1_23", "triton")]

    @pytest.fixture
    def does_not_fit(self) -> Mapping[str, PythonKernel]:
        return {"^the function has products$": shipped_case("1_1", "triton")[0]}

    def test_a_run_tries_it_after_those_of_kernelwright(self, rule: Rule) -> None:
        assert known_rules() == (*RULES, rule)
        assert (rule.name, rule.category, rule.work) == ("bypass-l1", "memory", "streams")
        assert rule in RuleProposer(Machine(cores=2))._rules
