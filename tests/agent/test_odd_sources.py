"""Every rule on every kernel, and on odd forms of each: what comes out is Python, or a reason why nothing does."""

from __future__ import annotations

import ast
import functools
import json
import lzma
import random
from pathlib import Path

import pytest
from kernelwright.agent.first_kernels.from_inductor import first_kernel
from kernelwright.agent.first_kernels.obstacle import Obstacle
from kernelwright.agent.rule_proposer import formatted
from kernelwright.agent.rules import RULES, Machine, Rewritten, Rule
from kernelwright.core import PythonKernel, TorchProblem
from kernelwright.core.generated_code import GeneratedCode

from . import rule_cases
from .conversations import linear_tilelang, linear_triton
from .odd_sources import FORMS
from .rule_cases import Case, attempted
from .triton_rule_cases import BY_NAME, RECORDED, shipped

ROOT = Path(__file__).parents[2]
MACHINE = Machine(cores=4, multiprocessors=132)
SHIPPED = {str(path.relative_to(ROOT / "corpus/kernels")): path for path in (ROOT / "corpus/kernels").rglob("*.py")}
TOLD = {
    "a conversation, Triton": linear_triton.HOISTED,
    "a conversation, TF32": linear_triton.WRONG,
    "a conversation, TileLang": linear_tilelang.WRONG,
}
FAST = ("triton/level1/1_1.py", "triton/level1/1_38.py", "triton/level2/2_61.py", "tilelang/level2/2_12.py")
"""Kernels on which the most rules fire."""


def kernels() -> list[str]:
    """Return the names of all kernels."""
    cases = [name for name, one in vars(rule_cases).items() if isinstance(one, Case)]
    return [*sorted(SHIPPED), *TOLD, *cases, *_recorded()]


@functools.cache
def _recorded() -> dict[str, str]:
    lines = map(json.loads, lzma.decompress(RECORDED.read_bytes()).splitlines())
    return {line["id"]: line for line in lines}


def source_of(name: str) -> str | None:
    """Return a kernel's source; None where there is no kernel of a recorded problem."""
    if name in SHIPPED:
        return SHIPPED[name].read_text()
    if name in TOLD:
        return TOLD[name]
    if (case := vars(rule_cases).get(name)) is not None:
        return str(case.kernel.source)
    recorded = _recorded()[name]
    problem = TorchProblem(id=recorded["id"], name=recorded["name"], source=recorded["reference"])
    try:
        return first_kernel(problem, GeneratedCode.model_validate(recorded["code"])).source
    except (Obstacle, KeyError):
        return None


def made(rule: Rule, kernel: PythonKernel) -> Rewritten | None:
    """Apply a rule; whatever it raises but NotApplicable fails the test. Its kernel is Python."""
    rewritten = attempted(rule, kernel, MACHINE)
    if rewritten is not None:
        compile(ast.parse(rewritten.kernel.source), rule.name, "exec")
    return rewritten


def applied_to_all_forms(name: str, forms: list[str]) -> int:
    """Apply all rules to forms of a kernel; return how often one fired."""
    source, fired = source_of(name), 0
    for form in forms if source is not None else ():
        kernel = PythonKernel.parse(FORMS[form](source, random.Random(f"{name} {form}")))
        fired += sum(made(rule, kernel) is not None for rule in RULES)
    return fired


@pytest.mark.parametrize("name", FAST)
def test_every_rule_copes_with_an_odd_form_of_a_kernel(name: str) -> None:
    applied_to_all_forms(name, ["everything"])


@pytest.mark.parametrize("form", FORMS)
def test_a_form_changes_a_kernel_and_stays_python(form: str) -> None:
    source = SHIPPED["triton/level2/2_61.py"].read_text()
    changed = FORMS[form](source, random.Random(0))
    assert changed != source
    ast.parse(changed)


def test_rules_fire_on_kernels_with_comments_and_continued_lines() -> None:
    """Comments inside of a load, and lines that a backslash continues, are no reason not to fire."""
    for form in ("comments", "continued lines"):
        source = FORMS[form](SHIPPED["triton/level2/2_61.py"].read_text(), random.Random(1))
        for name in ("eviction-hints", "constant-sizes", "row-in-registers", "pipelined-loads"):
            assert made(BY_NAME[name], PythonKernel.parse(source)) is not None, (form, name)


def test_eviction_hints_follow_a_comment_inside_a_load() -> None:
    source = shipped("1_23").kernel.source
    old = 'tl.load(x_ptr + row * n_cols + start + cols, mask=mask, other=-float("inf"))'
    assert "tl.load(" in source
    first = source[source.index("tl.load(") :].split("\n")[0]
    changed = source.replace(first, first.replace("tl.load(", "tl.load(  # a row's block )\n            ", 1), 1)
    assert changed != source, old
    rewritten = made(BY_NAME["eviction-hints"], PythonKernel.parse(changed))
    assert rewritten is not None and "# a row's block )" in rewritten.kernel.source


def test_sizes_that_are_made_of_each_other_are_not_constant() -> None:
    source = shipped("1_23").kernel.source
    circle = "        n_rows, n_cols = x.shape\n"
    assert circle in source
    changed = source.replace(circle, "        n_rows = n_cols\n        n_cols = n_rows\n")
    assert made(BY_NAME["constant-sizes"], PythonKernel.parse(changed)) is None


def test_launch_parameters_add_nothing_beside_a_dictionary_of_options() -> None:
    source = shipped("1_23").kernel.source
    changed = source.replace("num_warps=NUM_WARPS", "**config")
    assert changed != source
    assert made(BY_NAME["launch-parameters"], PythonKernel.parse(changed)) is None


def test_some_pairs_of_rules() -> None:
    kernel = shipped("2_12").kernel
    first = made(BY_NAME["split-operands"], kernel)
    assert first is not None
    fired = [rule.name for rule in RULES if made(rule, formatted(first.kernel)) is not None]
    assert {"promoted-products", "joined-products", "tensor-descriptors"} <= {*fired}


@pytest.mark.slow
@pytest.mark.parametrize("name", kernels())
def test_every_rule_and_drawn_pairs_of_rules_on_every_kernel(name: str) -> None:
    """Of all pairs three with each rule that fires: over all kernels each pair is drawn several times."""
    source = source_of(name)
    if source is None:
        pytest.skip("torch's compiler wrote nothing that is a kernel")
    kernel = PythonKernel.parse(source)
    for rule in RULES:
        if (rewritten := made(rule, kernel)) is not None:
            once = formatted(rewritten.kernel)
            for other in random.Random(f"{name} {rule.name}").sample(RULES, 3):
                made(other, once)


@pytest.mark.slow
@pytest.mark.parametrize("name", kernels())
def test_every_rule_on_two_forms_of_every_kernel(name: str) -> None:
    """On all of it, and on one form that is drawn for the kernel."""
    applied_to_all_forms(name, ["everything", random.Random(name).choice([*FORMS])])
