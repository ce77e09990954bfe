"""Rules for TileLang on CUDA: where they fire, that rewritten kernels say the same, and that they compile for sm_90a.

Without a GPU nothing of this runs on one: values come from an interpreter of one thread, and the compiler shows whether
a product got WGMMA and TMA. Layouts, barriers and speed are the evaluator's to judge, on a GPU.
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from kernelwright.agent.applied_rules import formatted
from kernelwright.agent.rules import RULES, Machine, Rewritten
from kernelwright.core import Config, PythonKernel
from kernelwright.corpus import find_kernel, find_problem, list_kernels
from kernelwright.evaluators.workers.modules import ProblemModule, construct
from kernelwright.testing import attempted

from .tilelang_interpreter import load

EXAMPLES = Path(__file__).parents[2] / "corpus" / "examples" / "tilelang"
BY_NAME = {rule.name: rule for rule in RULES}
FIRES = {
    "split-products": {"1_1", "2_12", "2_95"},
    "split-products-tf32": {"1_1", "2_12", "2_95"},
    "keep-row": {"1_23", "1_38"},
}
PRODUCT = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 16}
RUNS: list[tuple[str, str, Mapping[str, Any], Mapping[str, Any]]] = [
    ("split-products", "1_1", PRODUCT, {"N": 37}),
    ("split-products-tf32", "1_1", {**PRODUCT, "PROMOTE": False}, {"N": 37}),
    ("split-products", "2_12", PRODUCT, {"batch_size": 5, "in_features": 40, "out_features": 36}),
    (
        "split-products",
        "2_95",
        PRODUCT,
        {"batch_size": 5, "in_features": 40, "out_features": 36, "add_value_shape": (36,)},
    ),
    ("keep-row", "1_23", {"BLOCK_N": 16}, {"batch_size": 2, "dim": 53}),
    ("keep-row", "1_38", {"BLOCK_N": 16}, {"batch_size": 2, "dim": 53}),
]


COMPILED = [
    ("split-products", "2_12"),
    ("keep-row", "1_23"),
]


@functools.lru_cache
def apply(rule: str, kernel: PythonKernel) -> Rewritten | None:
    return attempted(BY_NAME[rule], kernel, Machine(cores=2))


def shipped(problem: str) -> PythonKernel:
    return find_kernel(problem, "tilelang").read()


@pytest.mark.parametrize("rule", FIRES)
def test_fires_where_its_preconditions_hold_and_only_once(rule: str) -> None:
    found = {file.problem: apply(rule, file.read()) for file in list_kernels("tilelang")}
    numbers = {problem.split("/")[-1]: rewritten for problem, rewritten in found.items()}
    fired = {problem: rewritten for problem, rewritten in numbers.items() if rewritten}
    assert set(fired) == FIRES[rule]
    for rewritten in fired.values():
        after = formatted(rewritten.kernel)
        assert apply(rule, after) is None or rule == "keep-row"
        assert set(after.declared_values) >= {parameter.name for parameter in rewritten.parameters}
        assert rewritten.space is not None
        assert after.config == after.bind(rewritten.space.default).config
    for other in ("triton", "tilelang_cpu"):
        assert all(apply(rule, file.read()) is None for file in list_kernels(other))


@pytest.mark.parametrize(("rule", "problem", "config", "sizes"), RUNS)
def test_rewritten_kernels_compute_the_same(
    rule: str, problem: str, config: Mapping[str, Any], sizes: Mapping[str, Any]
) -> None:
    """Ragged in every axis, with tiles far below those of a GPU."""
    rewritten = apply(rule, shipped(problem))
    assert rewritten is not None
    source = formatted(rewritten.kernel).bind(Config(config)).source
    # The kernels that pack and split have tiles of a fixed size, most of which would lie beyond the edge here.
    for size, small in ((1024, 16), (64, 16), (65, 17)):
        source = re.sub(rf"\b{size}\b", str(small), source)
    names = load(source)
    module = ProblemModule(find_problem(problem).path, sizes, "cpu")
    reference = module.model(0)
    candidate = construct(lambda: names["ModelNew"](*module.init_inputs()), "cpu", 0)
    candidate.load_state_dict(reference.state_dict())
    inputs = module.inputs(1)
    with torch.no_grad():
        expected, actual = reference(*inputs), candidate(*inputs)
    assert actual.shape == expected.shape
    error = ((actual - expected).square().mean() / expected.square().mean()).sqrt()
    assert error < (1e-6 if "PROMOTE" in config or rule == "keep-row" else 1.2e-5)


SPOILED = [
    ("split-products", "1_1", '"float32"', '"float16"', "operands that are not fp32"),
    ("split-products", "1_1", "out_idx=[-1]", "out_idx=[2]", "another form of the result"),
    ("split-products", "1_1", "A_shared[i, k] * B", "A_shared[i, k + 0] * B", "another index"),
    (
        "split-products",
        "1_1",
        "T.clear(C_local)",
        "T.copy(A_shared, C_local)\n            T.clear(C_local)",
        "a tile in use",
    ),
    ("split-products", "1_1", "num_stages=NUM_STAGES", "num_stages=2", "stages that are not constant"),
    ("split-products", "2_12", "wt_shared[k, n] = w_shared[n, k]", "wt_shared[k, n] = 2 * w_shared[n, k]", "a scale"),
    ("keep-row", "1_38", "tile[j] / mean[0]", "x[row, j] / mean[0]", "a third read"),
    ("keep-row", "1_38", "T.copy(tile, y[row, block * BLOCK_N])", "T.copy(tile, y[row, block])", "another place"),
    ("keep-row", "1_23", "T.exp(tile[j] - row_max[0]) / row_sum[0]", "tile[j] * x[row, j]", "a third read"),
]


@pytest.mark.parametrize(("rule", "problem", "old", "new", "reason"), SPOILED)
def test_does_not_fire(rule: str, problem: str, old: str, new: str, reason: str) -> None:
    source = shipped(problem).source
    assert old in source
    assert apply(rule, PythonKernel.parse(source.replace(old, new))) is None, reason


def test_nothing_of_the_old_product_is_left() -> None:
    rewritten = apply("split-products", shipped("2_12"))
    assert rewritten is not None
    after = formatted(rewritten.kernel)
    assert not {"PAD", "UNROLL_K", "MIN_BLOCKS"} & set(after.config)
    assert not any(text in after.source for text in ("annotate", "T.Fragment", "wt_shared", "disable_tma"))
    assert "return product(*split_x(x), *split_weight(weight), bias)" in after.source
    assert "T.gemm(x_tile_low, w_tile_high, part, transpose_B=True, policy=policy, clear_accum=True)" in after.source


def test_an_operand_whose_sum_is_not_along_its_last_axis_is_turned() -> None:
    rewritten = apply("split-products", shipped("1_1"))
    assert rewritten is not None
    assert "split_B = build_turned_split(K, N)" in rewritten.kernel.source
    assert "T.copy(B_high[bx * BLOCK_N, ko * BLOCK_K], B_tile_high)" in rewritten.kernel.source


def test_schedules_are_for_products_on_tensor_cores() -> None:
    example = PythonKernel.parse((EXAMPLES / "matmul-pipelined" / "after.py").read_text())
    rewritten = apply("product-schedule", example)
    assert rewritten is not None
    assert [parameter.name for parameter in rewritten.parameters] == ["WARP_SPECIALIZED", "GEMM_POLICY"]
    assert "T.gemm(A_shared, B_shared, C_local, policy=T.GemmWarpPolicy[GEMM_POLICY])" in rewritten.kernel.source
    assert 'pass_configs={"tl.disable_warp_specialized": not WARP_SPECIALIZED}' in rewritten.kernel.source
    assert apply("product-schedule", formatted(rewritten.kernel)) is None
    # Products on CUDA cores have neither, and those that split-products writes have a policy.
    assert apply("product-schedule", shipped("1_1")) is None
    split = apply("split-products", shipped("1_1"))
    assert split is not None
    scheduled = apply("product-schedule", split.kernel)
    assert scheduled is not None
    assert [parameter.name for parameter in scheduled.parameters] == ["WARP_SPECIALIZED"]
    assert scheduled.kernel.source.count("pass_configs") == 1


def test_they_compile_for_sm_90(tmp_path: Path) -> None:
    """At their real sizes, to CUDA source: products with WGMMA and TMA, in the shared memory of a block."""
    for rule, problem in [("split-products-tf32", "1_1"), *COMPILED]:
        rewritten = apply(rule, shipped(problem))
        assert rewritten is not None
        (tmp_path / f"{problem}.py").write_text(formatted(rewritten.kernel).source)
    script = Path(__file__).with_name("lower_tilelang.py")
    command = [sys.executable, str(script), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    found = json.loads(run.stdout)
    for problem, kernels in found.items():
        assert all(kernel["shared"] <= 227 * 1024 for kernel in kernels.values()), problem
    products = [kernel for kernels in found.values() for kernel in kernels.values() if kernel["wgmma"]]
    assert len(products) == 2
    assert all(product["tma"] for product in products)
