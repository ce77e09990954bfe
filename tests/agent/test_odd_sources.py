"""Every rule on kernels, and on odd forms of each: what comes out is Python, or a reason why nothing does.

Of the kernels, the pairs of rules and the odd forms a part is tried that is always the same: all take a quarter of an
hour of processor time. TESTS_ALL_PAIRS=1 tries them all.
"""

from __future__ import annotations

import ast
import functools
import json
import lzma
import os
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from kernelwright.agent.applied_rules import formatted
from kernelwright.agent.first_kernels.from_inductor import first_kernel
from kernelwright.agent.first_kernels.unsupported_code import UnsupportedCodeError
from kernelwright.agent.rules import RULES, Machine, Rewritten, Rule
from kernelwright.agent.rules.rule import Change, Rewrite
from kernelwright.core import PythonKernel, TorchProblem
from kernelwright.core.generated_code import GeneratedCode
from kernelwright.testing import FORMS, attempted

from . import rule_cases
from .conversations import linear_tilelang, linear_triton, rmsnorm_cpu
from .rule_cases import Case
from .triton_rule_cases import BY_NAME, RECORDED, shipped

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
MACHINE = Machine(cores=4, multiprocessors=132)
ALL = os.environ.get("TESTS_ALL_PAIRS") == "1"
SHIPPED = {str(path.relative_to(ROOT / "corpus/kernels")): path for path in (ROOT / "corpus/kernels").rglob("*.py")}
EXAMPLES = {
    f"{path.parent.relative_to(ROOT / 'corpus/examples')}, {path.stem}": path
    for path in (ROOT / "corpus/examples").rglob("*.py")
    if path.stem in ("before", "after")
}
TOLD = {
    f"{module.__name__.rpartition('.')[2]}, {name.lower()}": getattr(module, name)
    for module, names in (
        (linear_triton, ("WRONG", "RIGHT", "HOISTED")),
        (linear_tilelang, ("WRONG", "RIGHT", "IN_REGISTERS")),
        (rmsnorm_cpu, ("WRONG", "RIGHT", "THREADED")),
    )
    for name in names
}
"""Kernels of the conversations with a scripted model."""
FAST = ("triton/level1/1_1.py", "triton/level1/1_38.py", "triton/level2/2_61.py", "tilelang/level2/2_12.py")
"""Kernels on which the most rules fire."""


def kernels(third: int) -> list[str]:
    """Return the names of kernels: of the examples' and the recorded ones a third, of the others all."""
    cases = [name for name, case in vars(rule_cases).items() if isinstance(case, Case)]
    many = [*sorted(EXAMPLES), *_recorded()]
    return [*sorted(SHIPPED), *TOLD, *cases, *(many if ALL else many[third::3])]


@functools.cache
def _recorded() -> dict[str, str]:
    lines = map(json.loads, lzma.decompress(RECORDED.read_bytes()).splitlines())
    return {line["id"]: line for line in lines}


def source_of(name: str) -> str | None:
    """Return a kernel's source; None where there is no kernel of a recorded problem."""
    if (path := SHIPPED.get(name) or EXAMPLES.get(name)) is not None:
        return path.read_text()
    if name in TOLD:
        return TOLD[name]
    if (case := vars(rule_cases).get(name)) is not None:
        return str(case.kernel.source)
    recorded = _recorded()[name]
    problem = TorchProblem(id=recorded["id"], name=recorded["name"], source=recorded["reference"])
    try:
        return first_kernel(problem, GeneratedCode.model_validate(recorded["code"])).source
    except (UnsupportedCodeError, KeyError):
        return None


def part(of: Sequence[T], count: int, *seed: str) -> Sequence[T]:
    """Return as many of these, or all where all are asked for."""
    return of if ALL else random.Random(" ".join(seed)).sample(of, min(count, len(of)))


def source_or_skip(name: str) -> str:
    """Return a kernel's source; skip the test where there is no kernel."""
    source = source_of(name)
    if source is None:
        pytest.skip("torch's compiler wrote nothing that is a kernel")
    return source


def made(rule: Rule, kernel: PythonKernel) -> Rewritten | None:
    """Apply a rule as the published suite does."""
    return attempted(rule, kernel, MACHINE)


def apply_to_forms(name: str, source: str, forms: Iterable[str]) -> None:
    """Apply all rules to forms of a kernel."""
    for form in dict.fromkeys(forms):
        kernel = PythonKernel.parse(FORMS[form](source, random.Random(f"{name} {form}")))
        for rule in RULES:
            made(rule, kernel)


@pytest.mark.parametrize("name", FAST)
def test_every_rule_copes_with_an_odd_form_of_a_kernel(name: str) -> None:
    apply_to_forms(name, SHIPPED[name].read_text(), ["everything"])


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


def test_an_import_is_written_after_one_from_the_future() -> None:
    source = SHIPPED["tilelang_cpu/level1/1_19.py"].read_text()
    changed = source.replace("import ", "from __future__ import annotations\n\nimport ", 1)
    rewritten = made(BY_NAME["split-grid"], PythonKernel.parse(changed))
    assert rewritten is not None and "ThreadPoolExecutor" in rewritten.kernel.source


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


def test_a_rule_that_raises_anything_else_fails_a_test() -> None:
    def change(kernel: PythonKernel, change: Change) -> Rewritten:
        raise KeyError(kernel.name)

    with pytest.raises(KeyError):
        made(Rewrite("broken", "memory", "both", "", lambda kernel: kernel, change), shipped("1_23").kernel)


@pytest.mark.slow
@pytest.mark.parametrize("name", kernels(0))
def test_every_rule_and_pairs_of_rules_on_kernels(name: str) -> None:
    """Each rule on the kernel, and others on what came of it where it fired."""
    kernel = PythonKernel.parse(source_or_skip(name))
    for rule in RULES:
        if (rewritten := made(rule, kernel)) is not None:
            once = formatted(rewritten.kernel)
            for other in part(RULES, 8, name, rule.name):
                made(other, once)


@pytest.mark.slow
@pytest.mark.parametrize("name", kernels(1))
def test_every_rule_on_odd_forms_of_kernels(name: str) -> None:
    """On the form that has all of them, pairs of rules too: two with each rule that fires."""
    source = source_or_skip(name)
    apply_to_forms(name, source, ["everything", *part(list(FORMS), 2, name)])
    odd = PythonKernel.parse(FORMS["everything"](source, random.Random(f"{name} everything")))
    for rule in RULES:
        if (rewritten := made(rule, odd)) is not None:
            for other in part(RULES, 2, name, rule.name):
                made(other, rewritten.kernel)
