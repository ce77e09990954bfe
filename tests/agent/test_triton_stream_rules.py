"""The rules for Triton kernels that stream: right in the interpreter where they fire, and where they must not."""

from __future__ import annotations

import pytest
from kernelwright.agent.rule_proposer import formatted
from kernelwright.agent.rules import Machine, Rewritten, Rule
from kernelwright.agent.rules.triton.row_in_registers import RowInRegisters
from kernelwright.core import Config, PythonKernel, Status
from kernelwright.corpus import find_kernel, find_problem
from kernelwright.evaluators.local import LocalEvaluator

MACHINE = Machine(cores=1)
ROW = RowInRegisters()

FIRES: list[tuple[Rule, str, str]] = [
    (ROW, "1_23", "softmax_kernel_one_read[(n_rows,)]"),
    (ROW, "1_36", "0 < row_block * BLOCK_SPATIAL <= min(ROW_WARPS * 2048, 32768)"),
    (ROW, "1_38", "row_block = triton.next_power_of_2(n_cols)"),
    (ROW, "2_61", "x = row\n    deviation"),
]
DOES_NOT_FIRE: list[tuple[Rule, str, str]] = [
    (ROW, "1_40", "two kernels share the passes"),
    (ROW, "1_47", "one pass"),
    (ROW, "1_94", "the passes are of different kernels"),
    (ROW, "2_12", "a product's operands are read once"),
]


def apply(rule: Rule, kernel: PythonKernel) -> Rewritten | None:
    rewritten = rule.apply(kernel, MACHINE)
    if rewritten is not None:
        rewritten = Rewritten(formatted(rewritten.kernel), rewritten.did, rewritten.parameters, rewritten.constraints)
    return rewritten


@pytest.mark.parametrize(("rule", "problem", "expected"), FIRES)
def test_fires_and_stays_correct(evaluator: LocalEvaluator, rule: Rule, problem: str, expected: str) -> None:
    rewritten = apply(rule, find_kernel(problem, "triton").read())
    assert rewritten is not None
    assert expected in rewritten.kernel.source
    assert rule.apply(rewritten.kernel, MACHINE) is None, "it has nothing left to do"
    for evaluation in evaluator.evaluate(find_problem(problem).read().at("tiny"), rewritten.kernel, [Config()]):
        assert evaluation.status is Status.OK, evaluation.message


@pytest.mark.parametrize(("rule", "problem", "why"), DOES_NOT_FIRE)
def test_does_not_fire(rule: Rule, problem: str, why: str) -> None:
    assert rule.apply(find_kernel(problem, "triton").read(), MACHINE) is None, why
