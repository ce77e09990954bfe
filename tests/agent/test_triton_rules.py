"""Rules for Triton's matrix products: right in the interpreter, compiled for sm_90, and silent where they must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from kernelwright.agent.rules import RULES, Machine
from kernelwright.core import Config, PythonKernel, Status
from kernelwright.corpus import find_kernel
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.testing import attempted

from .triton_rule_cases import (
    BY_NAME,
    MACHINE,
    applied,
    case_of,
    compiled,
    from_inductor,
    is_for_triton,
    linear_from_inductor,
    shipped,
)

pytestmark = pytest.mark.usefixtures("own_inputs")

PRODUCTS = ("1_1", "2_10")
DRAWS = 3
"""Three bf16 products miss the tolerance in an element of some draws of the inputs."""

FIRES = [
    ("split-precision", "1_1", "acc = split_dot(a, b, acc, PRECISION)", {"PRECISION": "bf16x3"}),
    ("split-precision", "2_95", "PRECISION=PRECISION", {"PRECISION": "tf32x3"}),
    ("split-precision", "2_12", "acc += tl.dot(a_hi, b_hi, part)", {"PRECISION": "bf16x3-promoted"}),
    ("split-precision", "2_10", "acc = split_dot(w_tile, x_tile, acc, PRECISION)", {"PRECISION": "bf16x3"}),
    ("wide-tiles", "2_12", '"BLOCK_N": [32, 64, 128, 256]', {"BLOCK_M": 64, "BLOCK_N": 256, "NUM_WARPS": 8}),
    ("wide-tiles", "first kernel", '"BLOCK_K_0": [16, 32, 64, 128]', {"BLOCK_M_0": 64, "NUM_STAGES_0": 5}),
    ("split-operands", "1_1", "A = A.contiguous()", {"SPLIT_BLOCK": 1024}),
    ("split-operands", "2_12", "acc = tl.dot(x_lo, w_hi, acc)", {}),
    ("split-operands", "2_61", "+ x_ptr_low", {}),
    ("grouped-order", "1_1", "offs_m = (pid_0_grouped * BLOCK_M", {"GROUP": 2, "BLOCK_M": 32, "BLOCK_N": 32}),
    ("grouped-order", "first kernel", "GROUP_M=GROUP", {"GROUP": 2}),
    ("even-sizes", "1_1", "mask=mask_m & (True if EVEN_K else offs_k[None, :] < K - k)", {"BLOCK_K": 32}),
    ("grouped-order+even-sizes", "2_12", "mask_m = True if EVEN_M else", {"BLOCK_M": 64, "BLOCK_K": 64}),
    ("even-sizes", "1_23", "mask = True if EVEN_N_COLS else start + cols < n_cols", {"BLOCK_SIZE": 512}),
    ("split-precision+tensor-descriptors", "2_12", "w_desc.load([tl.program_id(1) * BLOCK_N, k]).T", {}),
    ("split-operands+grouped-order+tensor-descriptors", "1_1", "a_low_desc.load([pid_0_grouped * BLOCK_M, k])", {}),
    ("split-k", "first kernel", "fused_0_parts[(triton.cdiv(32, BLOCK_M_0)", {"SPLIT_K": 2, "BLOCK_K_0": 16}),
    ("split-operands+split-k", "first kernel", "acc += tl.load(parts_ptrs)", {"BLOCK_N_0": 32}),
    ("persistent-grid", "2_10", "x_ptr_of_tile += sample", {"BLOCK_P": 32}),
    ("persistent-grid", "first kernel", "(min(PROGRAMS, tiles_0),)", {"BLOCK_N_0": 64, "FLATTEN": True}),
    (
        "split-precision+grouped-order+tensor-descriptors+persistent-grid",
        "1_1",
        "tiles_0, tiles_1 = triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N)",
        {"BLOCK_M": 32, "BLOCK_N": 32},
    ),
    ("split-operands", "first kernel", "a_halves, a_distance = split_halves(x)", {}),
]


@pytest.mark.parametrize(("rules", "name", "expected", "config"), FIRES)
def test_fires_and_stays_correct(
    evaluator: LocalEvaluator, rules: str, name: str, expected: str, config: dict[str, int | str]
) -> None:
    case = case_of(name)
    rewritten = applied(rules, case.kernel)
    assert expected in rewritten.kernel.source
    if rewritten.space:
        own = {name: value for name, value in config.items() if name in rewritten.space.names}
        assert Config({**rewritten.space.default, **own}) in rewritten.space
    for _ in range(DRAWS):
        (found,) = evaluator.evaluate(case.problem, rewritten.kernel, [Config(config)])
        if found.ok:
            break
    assert found.status is Status.OK, found.message


def test_rows_that_no_descriptor_allows_are_loaded_as_before(evaluator: LocalEvaluator) -> None:
    case = case_of("2_12")
    problem = replace(case.problem, sizes={**case.problem.sizes, "in_features": 50})
    kernel = applied("split-operands+tensor-descriptors", case.kernel).kernel
    (found,) = evaluator.evaluate(problem, kernel, [Config()])
    assert found.status is Status.OK, found.message


def with_changes(name: str, *replacements: tuple[str, str]) -> PythonKernel:
    source = case_of(name).kernel.source
    for old, new in replacements:
        assert old in source
        source = source.replace(old, new)
    return PythonKernel.parse(source)


Made = Callable[[], PythonKernel]
"""A kernel that is made when its test runs: every worker of a run reads this file."""


def changed(name: str, *replacements: tuple[str, str]) -> Made:
    return partial(with_changes, name, *replacements)


def precise(name: str, *replacements: tuple[str, str]) -> Made:
    return lambda: applied("split-precision", with_changes(name, *replacements)).kernel


DOES_NOT_FIRE = [
    ("split-precision", changed("1_1", ('input_precision="ieee"', 'input_precision="tf32"')), "TF32 is asked for"),
    ("split-precision", changed("1_1", (', input_precision="ieee"', "")), "TF32 is the default"),
    ("split-precision", changed("1_1", ("dtype=A.dtype", "dtype=torch.float16")), "the operands may have 16 bits"),
    ("split-precision", changed("1_1", ("        acc = tl.dot(a", "        other = tl.dot(a")), "another sum"),
    ("wide-tiles", changed("1_1", ("BLOCK_K=BLOCK_K", "BLOCK_K=32")), "the step is not a constant"),
    ("wide-tiles", changed("1_1", ("num_warps=NUM_WARPS", "num_warps=4")), "the warps are not constant"),
    ("split-operands", changed("2_12", ("gemm.weight,", "gemm.weight.t(),")), "a view may have holes"),
    ("split-operands", changed("2_12", ("x = x.contiguous()", "x = x[:, ::2]")), "a view has holes"),
    ("split-operands", changed("1_1", ("        acc = tl.dot(a, b", "        acc = tl.dot(a * 2.0, b")), "no load"),
    ("split-operands", changed("1_1", ("acc, mask", "acc.to(a_ptr.dtype.element_ty), mask")), "the type is read"),
    ("grouped-order", changed("1_1", ("tl.store(c_ptrs, acc,", "tl.atomic_add(c_ptrs, acc,")), "programs add up"),
    ("grouped-order", changed("2_10"), "the first axis is of samples and tiles"),
    ("grouped-order", changed("1_1", ("tl.program_id(1)", "(tl.num_programs(1) - tl.program_id(1))")), "it counts"),
    ("even-sizes", changed("1_19", ("numel, BLOCK_SIZE),", "numel, BLOCK_SIZE) + 1,")), "programs beyond the size"),
    ("even-sizes", changed("1_19", ("offs < numel", "offs < numel - 1")), "another bound"),
    ("even-sizes", changed("1_19", ("offs = tl", "numel = numel // 2\n    offs = tl")), "the size changes"),
    ("even-sizes", changed("1_19", ("x < 0.0", "x * mask < 0.0")), "the mask is a value too"),
    ("tensor-descriptors", changed("2_12"), "products on the vector units would spill"),
    ("tensor-descriptors", precise("1_1", ("(offs_k[None, :] < K - k)", "(offs_k[None, :] < K)")), "no size's bound"),
    (
        "tensor-descriptors",
        precise("1_1", ("a_ptrs += BLOCK_K * stride_ak", "a_ptrs += 2 * stride_ak")),
        "another step",
    ),
    (
        "tensor-descriptors",
        precise("2_12", ("offs_m[:, None] * K + offs_k[None, :]", "offs_m[:, None] * K * 2")),
        "gaps",
    ),
    (
        "tensor-descriptors",
        precise("2_12", ("mask=mask_n & (offs_k[:, None] < K - k), other=0.0", "mask=mask_n")),
        "rest",
    ),
    ("tensor-descriptors", precise("2_10"), "a convolution's pixels are not rows of a matrix"),
    (
        "persistent-grid",
        changed("1_1", ("    acc = tl.z", "    if M == 1:\n        return\n    acc = tl.z")),
        "a return",
    ),
    ("persistent-grid", changed("2_10", ("    tile = tl.program_id(0)", "    tile = tl.program_id(2)")), "three axes"),
    ("split-k", changed("1_1"), "the number of tiles is not in the file"),
    ("split-k", partial(from_inductor, "2_12"), "512 tiles"),
    ("split-k", partial(from_inductor, "1_3"), "more tiles than multiprocessors"),
]


@pytest.mark.parametrize(("name", "kernel", "reason"), DOES_NOT_FIRE)
def test_does_not_fire(name: str, kernel: Made, reason: str) -> None:
    assert attempted(BY_NAME[name], kernel(), MACHINE) is None, reason


PRODUCT_RULES = [rule.name for rule in RULES if is_for_triton(rule) and rule.work == "products"]


@pytest.mark.parametrize("name", [*PRODUCT_RULES, "even-sizes"])
def test_a_rule_for_products_leaves_nothing_for_itself_and_other_kernels_alone(name: str) -> None:
    for kernel in PRODUCTS:
        if attempted(BY_NAME[name], shipped(kernel).kernel, MACHINE) is None:
            continue  # a grouped order is not for convolutions
        assert attempted(BY_NAME[name], applied(name, shipped(kernel).kernel).kernel, MACHINE) is None
    assert (
        attempted(BY_NAME[name], find_kernel("1_38" if name != "even-sizes" else "1_40", "triton").read(), MACHINE)
        is None
    )
    assert attempted(BY_NAME[name], find_kernel("1_1", "tilelang").read(), MACHINE) is None


def test_wide_tiles_replace_a_limit_on_accumulators_and_keep_every_other_constraint() -> None:
    own = '"BLOCK_M * BLOCK_N <= NUM_WARPS * 32 * 64",'
    kernel = with_changes("2_12", (own, '"BLOCK_M * BLOCK_N // 32 <= NUM_WARPS * 16", "BLOCK_M <= M",'))
    (limit, size, shared) = applied("split-precision+wide-tiles", kernel).kernel.declared_constraints
    assert limit == "BLOCK_M * BLOCK_N <= NUM_WARPS * 32 * (128 if PRECISION == 'bf16x3' else 64)"
    assert (size, shared) == ("BLOCK_M <= M", case_of("2_12").kernel.declared_constraints[1])
    odd = with_changes("2_12", (own, '"BLOCK_M * BLOCK_N * BLOCK_M <= NUM_WARPS * 100000",'))
    assert "BLOCK_M * BLOCK_N * BLOCK_M <= NUM_WARPS * 100000" in applied("wide-tiles", odd).kernel.declared_constraints


def test_wide_tiles_of_promoted_products_leave_room_for_their_second_sum() -> None:
    def limit(rules: str) -> str:
        return applied(rules, case_of("2_12").kernel).kernel.declared_constraints[0]

    assert limit("promoted-products+wide-tiles") == "BLOCK_M * BLOCK_N <= NUM_WARPS * 32 * 64"
    assert limit("joined-products+wide-tiles") == "BLOCK_M * BLOCK_N <= NUM_WARPS * 32 * 128"


def test_tiles_of_two_products_share_the_parameter_of_their_precision() -> None:
    wider = applied("wide-tiles", from_inductor("2_45"))
    assert wider.space is not None and {"BLOCK_M_0", "BLOCK_M_2", "PRECISION"} <= set(wider.space.names)


def test_tiles_of_a_file_that_declares_none_are_large_enough_for_a_product() -> None:
    kernel = with_changes("2_12", ("SEARCH_SPACE = {", "NOTES = {"), ("CONSTRAINTS = [", "MORE_NOTES = ["))
    declared = applied("wide-tiles", kernel).kernel.declared_values
    assert [declared[f"BLOCK_{side}"][0] for side in "MNK"] == [16, 16, 16]


def test_a_persistent_grid_needs_the_number_of_multiprocessors() -> None:
    kernel = case_of("1_1").kernel
    assert attempted(BY_NAME["persistent-grid"], kernel, Machine(cores=1)) is None
    rewritten = attempted(BY_NAME["persistent-grid"], kernel, Machine(cores=1, multiprocessors=132))
    assert rewritten is not None and rewritten.kernel.config["PROGRAMS"] == 132


def test_what_a_file_declares_stays_in_a_wider_space() -> None:
    kernel = linear_from_inductor().kernel
    wider = applied("wide-tiles", kernel)
    assert wider.space is not None and Config({name: kernel.config[name] for name in wider.space.names}) in wider.space
    before = kernel.space(kernel.declared_values, kernel.declared_constraints)
    assert all(
        set(values) <= set(wider.kernel.declared_values[name]) for name, values in kernel.declared_values.items()
    )
    assert before.cardinality < wider.kernel.space(wider.kernel.declared_values, []).cardinality


WGMMA, BULK, WIDE_COPIES = "wgmma.mma_async", "cp.async.bulk.tensor", "cp.async.cg.shared.global"
COMPILED = {
    "in the loop": ("split-precision+wide-tiles", "2_12", {"PRECISION": "bf16x3", "BLOCK_N": 256}, WGMMA),
    "promoted in the loop": ("split-precision", "2_12", {"PRECISION": "bf16x3-promoted"}, WGMMA),
    "in TF32": ("split-precision", "2_95", {"PRECISION": "tf32x3"}, WGMMA),
    "without masks": ("grouped-order+even-sizes", "2_12", {}, "fma.rn.f32"),
    "by descriptors": ("split-operands+tensor-descriptors", "2_12", {"BLOCK_M": 128, "BLOCK_N": 128}, BULK),
    "one after the other": ("joined-products+wide-tiles", "1_1", {"BLOCK_N": 256, "NUM_STAGES": 4}, WGMMA),
    "channels side by side": ("channels-last+split-operands", "2_10", {}, WIDE_COPIES),
    "taps and channels": ("joined-taps+split-precision", "volume", {"BLOCK_M_0": 128}, WIDE_COPIES),
    "sizes as constants": ("constant-sizes", "1_1", {}, WIDE_COPIES),
    "promoted": ("dropped-tiles+promoted-products", "triangle", {"NUM_WARPS_0": 8}, WGMMA),
    "with statistics": ("epilogue-statistics", "2_61", {}, "fma.rn.f32"),
    "beforehand": ("split-operands+wide-tiles", "1_1", {"BLOCK_N": 256, "NUM_STAGES": 4}, WGMMA),
}


def test_compiles_for_sm_90(tmp_path: Path) -> None:
    cases = [
        (case_of(name), applied(rules, case_of(name).kernel).kernel.bind(config), f"assert {expected!r} in ptx")
        for rules, name, config, expected in COMPILED.values()
    ]
    assert dict(zip(COMPILED, compiled(tmp_path, cases), strict=True)) == dict.fromkeys(COMPILED)
