"""The rules for Triton kernels that stream: right in the interpreter where they fire, and where they must not."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from kernelwright.agent.applied_rules import formatted
from kernelwright.agent.rules import Machine, Rewritten, Rule
from kernelwright.core import Config, PythonKernel, Status
from kernelwright.corpus import find_kernel, find_problem
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.testing import attempted, fired

from .triton_rule_cases import BY_NAME, from_inductor, linear_from_inductor, resized, shipped

pytestmark = pytest.mark.usefixtures("own_inputs")


MACHINE = Machine(cores=1)
ROW, FUSE, STAGES = (BY_NAME[name] for name in ("row-in-registers", "fuse-neighbour", "pipelined-loads"))
PERSISTENT, SPLIT, ROWS = (BY_NAME[name] for name in ("persistent-rows", "split-rows", "rows-per-program"))
WIDE, HINTS, PACK = (BY_NAME[name] for name in ("wide-streams", "eviction-hints", "pack-weights"))

FIRES: list[tuple[list[Rule], str, str]] = [
    ([ROW], "1_36", "0 < row_block * BLOCK_SPATIAL <= min(ROW_WARPS * 2048, 32768)"),
    ([ROW, ROWS], "1_38", "total = tl.zeros((ROWS, BLOCK_SIZE), dtype=tl.float32)"),
    ([ROW, PERSISTENT], "1_23", "softmax_kernel_one_read[(min(n_rows, PROGRAMS_EACH * multiprocessors(x.device)),)]"),
    ([PERSISTENT], "1_40", "row = program // n_blocks"),
    ([STAGES], "1_47", "for start in tl.range(0, n_reduce, BLOCK_REDUCE, num_stages=LOAD_STAGES):"),
    ([STAGES, WIDE, HINTS], "1_94", "BLOCK_SIZE * 8 * (LOAD_STAGES - 1) <= 227 * 1024"),
]
DOES_NOT_FIRE: list[tuple[Rule, str, str]] = [
    (ROW, "1_40", "two kernels share the passes"),
    (ROW, "1_47", "one pass"),
    (ROW, "1_94", "the passes are of different kernels"),
    (ROW, "2_12", "a product's operands are read once"),
    (STAGES, "2_12", "the launch's stages pipeline products"),
    (SPLIT, "1_23", "a pass carries a maximum and a sum"),
    (SPLIT, "1_36", "a sum for each column"),
    (SPLIT, "1_94", "no second pass"),
    (ROWS, "1_40", "two axes in a block"),
    (ROWS, "1_19", "nothing is reduced"),
    (ROWS, "1_23", "loops over the row"),
    (WIDE, "1_1", "a product"),
    (HINTS, "2_95", "a product"),
    (PERSISTENT, "1_47", "a loop in the function"),
    (PERSISTENT, "2_12", "a grid of two axes"),
    (PACK, "2_12", "a weight without taps"),
    (PACK, "1_1", "no parameter of the module"),
    (FUSE, "2_61", "the group norm reads more than its own element"),
    (FUSE, "2_10", "pooling is not an elementwise function"),
]

FIRST_KERNELS: list[tuple[Rule, str, str]] = [
    (STAGES, "1_48", "for r0_offset in tl.range(0, r0_numel, R0_BLOCK, num_stages=LOAD_STAGES):"),
    (PERSISTENT, "1_36", "xoffset = program * XBLOCK"),
    (WIDE, "1_96", "REGISTERS * NUM_WARPS_0 * 32 <= 65536"),
    (PACK, "2_21", "arg_W + ((i * 3 + j) * n_out + idx_y_c[None, :]) * n_sum + idx_x_c[:, None]"),
    (PACK, "2_48", "((d * 9 + i * 3 + j) * n_out + idx_y_c[None, :])"),
    (HINTS, "2_24", 'eviction_policy="evict_first"'),
]
COMPILED: list[tuple[list[Rule], str]] = [
    ([ROW, PERSISTENT], "1_23"),
    ([STAGES, WIDE, HINTS], "1_47"),
    ([ROW, ROWS, PERSISTENT], "1_38"),
    ([SPLIT, STAGES], "1_38"),
    ([PACK], "2_10"),
]


def apply(rule: Rule, kernel: PythonKernel) -> Rewritten | None:
    rewritten = attempted(rule, kernel, MACHINE)
    if rewritten is not None:
        rewritten = Rewritten(
            formatted(rewritten.kernel), rewritten.summary, rewritten.parameters, rewritten.constraints
        )
    return rewritten


@pytest.mark.parametrize(("rules", "problem", "expected"), FIRES)
def test_fires_and_stays_correct(evaluator: LocalEvaluator, rules: list[Rule], problem: str, expected: str) -> None:
    kernel = find_kernel(problem, "triton").read()
    for rule in rules:
        kernel = formatted(fired(rule, kernel, MACHINE).kernel)
        assert apply(rule, kernel) is None, "it has nothing left to do"
    assert expected in kernel.source
    for evaluation in evaluator.evaluate(find_problem(problem).read().at("tiny"), kernel, [Config()]):
        assert evaluation.status is Status.OK, evaluation.message


@pytest.mark.parametrize(("rule", "problem", "why"), DOES_NOT_FIRE)
def test_does_not_fire(rule: Rule, problem: str, why: str) -> None:
    assert attempted(rule, find_kernel(problem, "triton").read(), MACHINE) is None, why


def test_an_elementwise_kernel_joins_the_product_before_it(evaluator: LocalEvaluator) -> None:
    case = linear_from_inductor()
    rewritten = apply(FUSE, case.kernel)
    assert rewritten is not None
    assert "tmp0 = tl.load(in_ptr0 + x0, mask=mask, eviction_policy=" in rewritten.kernel.source
    assert "fused_1" not in rewritten.kernel.source and "XBLOCK_1" not in rewritten.kernel.source
    (evaluation,) = evaluator.evaluate(case.problem, rewritten.kernel, [Config()])
    assert evaluation.status is Status.OK, evaluation.message


@pytest.mark.parametrize(
    ("name", "expected", "gone"),
    [
        ("1_15", "tl.store(out_ptr0 + x2, tmp5, mask=mask)", "XBLOCK_1"),
        ("2_54", "out_ptr0_2=buf1", "buf0"),
    ],
)
def test_where_the_result_goes(name: str, expected: str, gone: str) -> None:
    """Into the product's buffer if the elementwise kernel wrote there, else into its own, and the first one goes."""
    rewritten = apply(FUSE, from_inductor(name))
    assert rewritten is not None
    assert expected in rewritten.kernel.source and gone not in rewritten.kernel.source


def test_a_row_of_code_of_torchs_compiler_is_read_once(evaluator: LocalEvaluator) -> None:
    case = resized("1_39", {"32768": "6", "65535": "1200", "65536": "1216"})
    rewritten = apply(ROW, case.kernel)
    assert rewritten is not None
    assert "if 0 < row_block * XBLOCK_0 <= min(ROW_WARPS * 2048, 32768):" in rewritten.kernel.source
    one_read = rewritten.kernel.source.split("def fused_0_one_read")[1].split("class ModelNew")[0]
    assert one_read.count("tl.load") == 1
    (evaluation,) = evaluator.evaluate(case.problem, rewritten.kernel, [Config()])
    assert evaluation.status is Status.OK, evaluation.message
    assert attempted(ROW, from_inductor("1_39"), MACHINE) is None, "65535 elements do not fit"
    assert attempted(ROW, from_inductor("1_24"), MACHINE) is None, "nor do 393216"


def test_a_buffer_that_is_read_again_is_not_fused_away() -> None:
    assert attempted(FUSE, from_inductor("2_39"), MACHINE) is None, "statistics and normalization both read the product"


def test_rules_fire_on_code_of_torchs_compiler() -> None:
    for rule, name, expected in FIRST_KERNELS:
        rewritten = apply(rule, from_inductor(name))
        assert rewritten is not None, (rule.name, name)
        assert expected in rewritten.kernel.source


def test_what_the_rules_write_compiles_for_sm_90(tmp_path: Path) -> None:
    files = []
    for rules, name in COMPILED:
        kernel = find_kernel(name, "triton").read()
        for rule in rules:
            rewritten = apply(rule, kernel)
            assert rewritten is not None, (rule.name, name)
            kernel = rewritten.kernel
        path = tmp_path / f"{len(files)}.py"
        path.write_text(kernel.source)
        files.append(f"{name}={path}")
    script = Path(__file__).parents[1] / "corpus/cross_compile_triton.py"
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, script, *files], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) == {name for _, name in COMPILED}


@pytest.mark.parametrize("name", ["2_10", "2_61"])
def test_packed_weights_compute_the_same(evaluator: LocalEvaluator, name: str) -> None:
    case = shipped(name)
    rewritten = apply(PACK, case.kernel)
    assert rewritten is not None
    assert "packed_weight = torch.empty_like(conv.weight)" in rewritten.kernel.source
    assert attempted(PACK, rewritten.kernel, MACHINE) is None, "it is packed"
    (evaluation,) = evaluator.evaluate(case.problem, rewritten.kernel, [Config()])
    assert evaluation.status is Status.OK, evaluation.message


def test_parts_of_a_row_add_up(evaluator: LocalEvaluator) -> None:
    rewritten = apply(SPLIT, find_kernel("1_38", "triton").read())
    assert rewritten is not None
    assert "tl.store(partial_1_ptr + tl.program_id(0), tl.sum(total, axis=0))" in rewritten.kernel.source
    configs = [Config({"BLOCK_SIZE": 128, "SPLIT_PROGRAMS": 8}), Config({"BLOCK_SIZE": 512, "SPLIT_PROGRAMS": 8})]
    for evaluation in evaluator.evaluate(find_problem("1_38").read().at("tiny"), rewritten.kernel, configs):
        assert evaluation.status is Status.OK, evaluation.message


def test_a_norm_of_three_passes_becomes_three_functions() -> None:
    rewritten = apply(SPLIT, find_kernel("2_61", "triton").read())
    assert rewritten is not None
    passes = rewritten.kernel.source.split("def group_norm_kernel_pass_")[1:]
    assert [text.count("for start in") for text in passes] == [1, 1, 1]
    assert passes[2].count("tl.sum(tl.load(partial_") == 2
    assert [parameter.name for parameter in rewritten.parameters] == ["SPLIT_PROGRAMS"]


def test_three_passes_share_one_read() -> None:
    rewritten = apply(ROW, find_kernel("2_61", "triton").read())
    assert rewritten is not None
    one_read = rewritten.kernel.source.split("def group_norm_kernel_one_read")[1].split("class ModelNew")[0]
    assert one_read.count("tl.load(x_ptr") == 1
    assert "0 < row_block <= min(ROW_WARPS * 2048, 32768)" in rewritten.kernel.source


def test_hints_follow_who_reads_again() -> None:
    hinted = apply(HINTS, find_kernel("2_61", "triton").read())
    assert hinted is not None
    found = re.findall(r"tl\.load\((\w+) \+ \w+.*eviction_policy=\"(\w+)\"", hinted.kernel.source)
    assert [policy for name, policy in found if name == "x_ptr"] == ["evict_last", "evict_last", "evict_first"]
    assert [policy for name, policy in found if name != "x_ptr"] == ["evict_last", "evict_last"]


def test_wide_streams_keep_what_a_file_declares() -> None:
    kernel = find_kernel("1_36", "triton").read()
    wider = apply(WIDE, kernel)
    assert wider is not None and wider.space is not None
    declared = wider.kernel.declared_values
    assert all(set(values) <= set(declared[name]) for name, values in kernel.declared_values.items())
    assert {16, 32} <= set(declared["NUM_WARPS"]) and 512 in declared["BLOCK_SPATIAL"]
    assert "REGISTERS * NUM_WARPS * 32 <= 65536" in wider.kernel.declared_constraints
    assert all(config["REGISTERS"] * config["NUM_WARPS"] * 32 <= 65536 for config in wider.space)
