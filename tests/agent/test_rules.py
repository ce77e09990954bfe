"""Each rule fires where its preconditions hold and the result is right, ragged sizes included; else it does not."""

from __future__ import annotations

import ast

import pytest
from kernelwright.agent.applied_rules import formatted
from kernelwright.agent.rules import RULES, Machine, Rule
from kernelwright.core import Config, Kernel, PythonKernel, Status, backends
from kernelwright.corpus import find_kernel, list_kernels
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.testing import attempted, fired

from .rule_cases import (
    COLUMNS,
    DOUBLE,
    ONCE,
    ONE_BLOCK,
    PER_COLUMN,
    PRODUCT,
    ROW_MAX,
    ROW_SUM,
    SCAN,
    SHADOWED,
    SHARED_WRITE,
    SHIFTED_PASSES,
    TRIANGLE,
    TRIANGULAR_COLUMNS,
    TWO_PASSES,
    WHOLE_IMAGE,
    WINDOW,
    WRONG_ORDER,
    Case,
)

MACHINE = Machine(cores=2)
BY_NAME = {rule.name: rule for rule in RULES}

FIRES = [
    ("split-grid", ROW_SUM, "over_threads"),
    ("split-grid", COLUMNS, "part * T.ceildiv(T.ceildiv(M, BLOCK), THREADS)"),
    ("unroll-and-jam", PRODUCT, "for k in T.serial(N % UNROLL):"),
    ("unroll-and-jam", COLUMNS, "for u in range(UNROLL)"),
    ("unroll-and-jam", WINDOW, "for ky in range(3) for kx in range(3)"),
    ("partial-accumulators", ROW_SUM, "for j in T.serial(N % LANES):"),
    ("partial-accumulators", ROW_MAX, "T.fill(lanes, top[0])"),
    ("licm", ROW_SUM, "hoisted[0] = 1.0 / (T.sqrt(acc[0] + 1.0))"),
    ("licm", PER_COLUMN, "hoisted[j] = 1.0 / (T.sqrt(scale[j] + 1.0))"),
    ("fuse-passes", TWO_PASSES, "acc[0] += Y[row, j]"),
    ("loop-order", WRONG_ORDER, "for k in T.serial(N):\n                    for j in T.serial(N):"),
    ("register-tile", COLUMNS, "for step in T.unroll(TILE):"),
    ("relaxed-math", ROW_SUM, 'COMPILE_FLAGS = ["-O3", "-march=native", MATH_FLAGS]'),
]

DOES_NOT_FIRE = [
    ("split-grid", ONE_BLOCK, "a grid of one block"),
    ("unroll-and-jam", ROW_SUM, "one accumulator, which no inner loop walks"),
    ("unroll-and-jam", WRONG_ORDER, "the reduction is innermost"),
    ("unroll-and-jam", TRIANGLE, "the inner loop is as long as the outer one has come"),
    ("unroll-and-jam", WHOLE_IMAGE, "no small window, but all of an image"),
    ("register-tile", TRIANGULAR_COLUMNS, "a loop is as long as the axis says"),
    ("fuse-passes", SHADOWED, "the second body has a loop over the first's variable"),
    ("split-grid", SHARED_WRITE, "all blocks write the same row"),
    ("licm", DOUBLE, "what is hoisted would lose digits"),
    ("partial-accumulators", SCAN, "the running sum is read in the loop"),
    ("partial-accumulators", WINDOW, "no sum into one element"),
    ("licm", SCAN, "nothing expensive"),
    ("licm", PRODUCT, "nothing expensive"),
    ("fuse-passes", SHIFTED_PASSES, "the second pass reads other elements than the first wrote"),
    ("fuse-passes", ROW_SUM, "the second pass needs the whole sum of the first"),
    ("loop-order", PRODUCT, "the order is right"),
    ("loop-order", SCAN, "two statements"),
    ("register-tile", PRODUCT, "no second axis to coarsen"),
    ("register-tile", ROW_MAX, "no product"),
    ("relaxed-math", PRODUCT, "no mathematical function"),
    ("relaxed-math", ONCE, "one call per block"),
]


def apply(rule: Rule, kernel: Kernel) -> Kernel | None:
    rewritten = attempted(rule, kernel, MACHINE)
    return formatted(rewritten.kernel) if rewritten else None


@pytest.fixture(scope="module")
def known_right() -> set[str]:
    """Digests of kernels that were found right: rules share theirs."""
    return set()


@pytest.mark.parametrize(("name", "case", "expected"), FIRES)
def test_fires_and_stays_correct(
    evaluator: LocalEvaluator, known_right: set[str], name: str, case: Case, expected: str
) -> None:
    rule = BY_NAME[name]
    rewritten = fired(rule, case.kernel, MACHINE)
    assert expected in formatted(rewritten.kernel).source
    configs = list(rewritten.space) if rewritten.space else [Config()]
    tried = [(case.kernel, [Config()])] if case.kernel.digest not in known_right else []
    known_right.add(case.kernel.digest)
    # The ends of its values: one that is left as it was, and one that changes the most.
    ends = configs if len(configs) <= 2 else [configs[0], configs[-1]]
    for kernel, which in [*tried, (formatted(rewritten.kernel), ends)]:
        for evaluation in evaluator.evaluate(case.problem, kernel, which):
            assert evaluation.status is Status.OK, f"{evaluation.config}: {evaluation.message}"


@pytest.mark.parametrize(("name", "case", "reason"), DOES_NOT_FIRE)
def test_does_not_fire(name: str, case: Case, reason: str) -> None:
    assert apply(BY_NAME[name], case.kernel) is None, reason


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_does_not_fire_twice_on_its_own_result(rule: Rule) -> None:
    """But for licm, which hoists one expression at a time, rules leave nothing for themselves."""
    for case in (PRODUCT, COLUMNS, ROW_SUM, ROW_MAX, PER_COLUMN, TWO_PASSES, WRONG_ORDER, WINDOW):
        kernel, rounds = case.kernel, 0
        while (after := apply(rule, kernel)) is not None and after.source != kernel.source:
            kernel, rounds = after, rounds + 1
            assert rounds <= (3 if rule.name == "licm" else 1), rule.name


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[Kernel]]:
    return {backend: [file.read() for file in list_kernels(backend)] for backend in backends()}


@pytest.mark.parametrize("backend", backends())
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_results_are_python_and_declare_their_parameters(
    corpus: dict[str, list[Kernel]], rule: Rule, backend: str
) -> None:
    for kernel in corpus[backend]:
        rewritten = attempted(rule, kernel, MACHINE)
        if rewritten is None:
            continue
        ast.parse(rewritten.kernel.source)
        for parameter in rewritten.parameters:
            assert rewritten.kernel.config[parameter.name] == parameter.default
        if rewritten.space:
            assert rewritten.kernel.bind(rewritten.space.default).source


def test_lanes_keep_the_accumulators_type() -> None:
    after = apply(BY_NAME["partial-accumulators"], DOUBLE.kernel)
    assert after is not None
    assert 'lanes = T.alloc_local((LANES,), "float64")' in after.source


@pytest.mark.parametrize("name", ["1_1", "2_10", "2_12"])
def test_what_is_jammed_is_not_jammed_again(name: str) -> None:
    """The loop around it would be next: a sum of sums, which is no faster."""
    after = apply(BY_NAME["unroll-and-jam"], find_kernel(name, "tilelang_cpu").read())
    assert after is not None
    assert apply(BY_NAME["unroll-and-jam"], after) is None


def test_jam_binds_its_factor_to_the_block_that_it_divides() -> None:
    body = PRODUCT.body.replace("for k in T.serial(N)", "for k in T.serial(BLOCK)")
    rewritten = attempted(BY_NAME["unroll-and-jam"], Case(body, "return x").kernel, MACHINE)
    assert rewritten is not None
    assert rewritten.constraints == ("BLOCK % UNROLL == 0",)
    assert rewritten.space is not None
    assert {config["UNROLL"] for config in rewritten.space} == {2, 4, 8}


def test_a_call_that_is_no_launch_is_left_alone() -> None:
    source = find_kernel("1_19", "triton").read().source
    calls = source + "\n\ndef other(layers, x):\n    return layers[0](x)\n"
    rewritten = attempted(BY_NAME["launch-parameters"], PythonKernel.parse(calls), MACHINE)
    assert rewritten is None or "return layers[0](x)\n" in rewritten.kernel.source


def test_atomics_forbid_splitting() -> None:
    adds = Case("for j in T.serial(N):\n    T.atomic_add(Y[0, j], X[row, j])", "return x")
    assert apply(BY_NAME["split-grid"], adds.kernel) is None


def test_one_core_leaves_nothing_to_split() -> None:
    assert attempted(BY_NAME["split-grid"], ROW_SUM.kernel, Machine(cores=1)) is None


def test_launch_parameters_of_triton_and_tilelang() -> None:
    relu = find_kernel("1_19", "triton").read()
    bare = PythonKernel.parse(relu.source.replace(", num_warps=NUM_WARPS", "").replace("NUM_WARPS", "UNUSED_WARPS"))
    rewritten = attempted(BY_NAME["launch-parameters"], bare, MACHINE)
    assert rewritten is not None
    assert [parameter.name for parameter in rewritten.parameters] == ["NUM_WARPS", "NUM_STAGES"]
    assert "num_warps=NUM_WARPS" in rewritten.kernel.source
    assert attempted(BY_NAME["launch-parameters"], rewritten.kernel, MACHINE) is None
    assert attempted(BY_NAME["launch-parameters"], ROW_SUM.kernel, MACHINE) is None


def test_swizzle_needs_a_tiled_product() -> None:
    swizzle = BY_NAME["swizzle-blocks"]
    product = attempted(swizzle, find_kernel("1_1", "tilelang").read(), MACHINE)
    assert product is not None
    assert "T.use_swizzle(panel_size=PANEL)" in product.kernel.source
    assert attempted(swizzle, product.kernel, MACHINE) is None
    assert attempted(swizzle, find_kernel("1_19", "tilelang").read(), MACHINE) is None
