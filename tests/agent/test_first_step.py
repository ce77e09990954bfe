"""Loops over sizes that certainly run: what rules say about them, and what the compiler makes of it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from kernelwright.core import Config, PythonKernel, Status
from kernelwright.evaluators.local import LocalEvaluator

from .triton_rule_cases import applied, compiled, linear_from_inductor, shipped

pytestmark = pytest.mark.usefixtures("own_inputs")

LOOP = "for k in range(0, K, BLOCK_K):"
COUNTED = (LOOP, "for step in range(0, tl.cdiv(K, BLOCK_K)):\n        k = step * BLOCK_K")
SAID = [
    ("split-operands", "1_1", (), "    tl.assume(K > 0)\n    for k in range(0, K, BLOCK_K):\n"),
    ("split-operands", "2_95", (), "    tl.assume(K > 0)\n    for k in range(0, K, BLOCK_K):\n"),
    ("split-operands", "1_1", (COUNTED,), "    tl.assume(K + BLOCK_K > BLOCK_K)\n    for step in"),
    ("split-operands", "1_1", ((LOOP, f"tl.assume(K > 0)\n    {LOOP}"),), f"    tl.assume(K > 0)\n    {LOOP}"),
    ("joined-products", "2_12", (), "    tl.assume(3 * steps > 0)\n    for joined_step in range(0, 3 * steps):\n"),
    ("joined-products", "1_1", (COUNTED,), "    steps = tl.cdiv(K, BLOCK_K)\n    tl.assume(3 * steps > 0)\n"),
]
NOT_SAID = [
    (("M, K = A.shape", "M, K = len(A), A[0].numel()"), "the number may be anything"),
    (("M, K = A.shape", "M, K = A.shape\n        K -= 32"), "less than the size"),
    (("offs_k = tl.arange", "K = K - 32\n    offs_k = tl.arange"), "the parameter changes"),
    ((LOOP, "for k in range(tl.program_id(2) * BLOCK_K, K, BLOCK_K):"), "a part of the size may be empty"),
    ((LOOP, "for k in range(0, K // 2, BLOCK_K):"), "half of the size may be nothing"),
]
PARTS = """\
    if (SPLIT_K - 1) * steps_of_part < 3 * steps:
        tl.assume(first_step < min(first_step + steps_of_part, 3 * steps))
    for joined_step in range(first_step, min(first_step + steps_of_part, 3 * steps)):
"""
DRAWS = 3
"""Three bf16 products miss the tolerance in an element of some draws of the inputs."""


def changed(name: str, *replacements: tuple[str, str]) -> PythonKernel:
    source = shipped(name).kernel.source
    for old, new in replacements:
        assert old in source
        source = source.replace(old, new)
    return PythonKernel.parse(source)


@pytest.mark.parametrize(("rules", "name", "replacements", "expected"), SAID)
def test_a_loop_over_a_size_is_said_to_run_once(
    rules: str, name: str, replacements: tuple[tuple[str, str], ...], expected: str
) -> None:
    source = applied(rules, changed(name, *replacements)).kernel.source
    assert expected in source
    assert source.count("tl.assume") == 1


@pytest.mark.parametrize(("replacement", "reason"), NOT_SAID)
def test_nothing_is_said_of_a_loop_that_may_have_no_steps(replacement: tuple[str, str], reason: str) -> None:
    assert "tl.assume" not in applied("split-operands", changed("1_1", replacement)).kernel.source, reason


def test_a_loop_that_counts_its_steps_stays_correct(evaluator: LocalEvaluator) -> None:
    kernel = applied("split-operands", changed("1_1", COUNTED)).kernel
    (found,) = evaluator.evaluate(shipped("1_1").problem, kernel, [Config()])
    assert found.status is Status.OK, found.message


@pytest.mark.parametrize("parts", [2, 8])
def test_parts_of_a_sum_are_right_where_the_last_are_empty(evaluator: LocalEvaluator, parts: int) -> None:
    """Twelve steps: two parts have six each, of eight the last two have none."""
    case = linear_from_inductor()
    kernel = applied("joined-products+split-k", case.kernel).kernel
    assert PARTS in kernel.source
    for _ in range(DRAWS):
        (found,) = evaluator.evaluate(case.problem, kernel, [Config({"SPLIT_K": parts, "BLOCK_K_0": 16})])
        if found.ok:
            break
    assert found.status is Status.OK, found.message


STRAIGHT = """
import re
before = ptx.partition("wgmma.mma_async")[0]
assert before != ptx
assert len(re.findall(r"@%p\\d+ bra", before)) == {branches}
"""
"""Needs so many branches before the first product."""


def without_words(kernel: PythonKernel) -> PythonKernel:
    return PythonKernel.parse(re.sub(r"tl\.assume\(.*\)", "pass", kernel.source))


def test_nothing_leads_around_the_loop(tmp_path: Path) -> None:
    """Without the words a branch does, at whose end zeros meet the results."""
    split = [changed("1_1"), changed("1_1", COUNTED)]
    cases = [
        (shipped("1_1"), applied(rules, kernel_).kernel)
        for rules in ("split-operands", "joined-products")
        for kernel_ in split
    ]
    experts = shipped("gemm/moe")
    sizes = {**experts.problem.sizes, "DTYPE": "bfloat16"}
    cases.append((replace(experts, problem=replace(experts.problem, sizes=sizes)), experts.kernel))
    parts = linear_from_inductor()
    cases.append((parts, applied("joined-products+split-k", parts.kernel).kernel.bind({"SPLIT_K": 2, "BLOCK_K_0": 16})))
    straight = [(case, kernel, STRAIGHT.format(branches=0)) for case, kernel in cases]
    case, kernel = cases[0]
    around = (case, without_words(kernel), STRAIGHT.format(branches=1))
    assert compiled(tmp_path, [*straight, around]) == [None] * (len(cases) + 1)
