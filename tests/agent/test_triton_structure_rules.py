"""Rules that change what kernels hand to each other, or the order of a product's sum: right where they fire."""

from __future__ import annotations

import functools

import pytest
from kernelwright.core import Config, PythonKernel, Status
from kernelwright.corpus import find_kernel
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.testing import attempted

from .triton_rule_cases import (
    BY_NAME,
    MACHINE,
    MADE,
    Case,
    applied,
    from_inductor,
    resized,
    shipped,
    volume_from_inductor,
)

pytestmark = pytest.mark.usefixtures("own_inputs")


CONVOLUTION = {
    "4194304": "256",
    "65536": "16",
    "256": "4",
    "64": "16",
    "254": "2",
    "64516": "4",
    "264257536": "1024",
    "4129024": "64",
    "4130816": "64",
    "64544": "4",
    "576": "144",
}
"""Numbers in the code of 2_54 from torch's compiler: 16 samples of 16 channels of 4 x 4 pixels."""
BATCHES = {
    "128": "2",
    "256": "8",
    "512": "8",
    "1024": "32",
    "2048": "32",
    "524288": "256",
    "1048576": "256",
    "2097152": "1024",
}
"""The same of 1_3: two products of 8 x 32 and 32 x 32 elements."""
NORM = {"1024": "4", "8192": "1024", "16384": "8", "8388608": "4096", "16": "2"}
"""The same of 2_30: 4 rows of two groups of 512 features."""
DRAWS = 3
"""Three bf16 products miss the tolerance in an element of some draws of the inputs."""


@functools.cache
def case_of(name: str) -> Case:
    if name in MADE:
        return MADE[name]()
    first = {"convolution": ("2_54", CONVOLUTION), "norm": ("2_30", NORM), "batches": ("1_3", BATCHES)}
    return resized(*first[name]) if name in first else shipped(name)


SHIPPED = {name: find_kernel(name, "triton").read() for name in ("1_1", "2_10", "2_12", "2_61")}
TILE = {"BLOCK_M_0": 64}
TRIANGLE_TILE = {"BLOCK_M_0": 16, "BLOCK_N_0": 16, "BLOCK_K_0": 16}
VOLUME_TILE = {"BLOCK_M_0": 256, "BLOCK_K_0": 32, "PRECISION": "ieee"}
WIDE = {"BLOCK_M_0": 16, "BLOCK_K_0": 512, "XBLOCK_2": 4096}
FIRES: list[tuple[str, str, str, dict[str, int | str]]] = [
    ("channels-last", "2_10", "x_ptr + (ih * CI * IW + iw * CI)[None, :] + c[:, None]", {"PRECISION": "tf32x3"}),
    ("joined-products", "1_1", "a_ptrs_of_step = a_ptrs + tl.cast(step, tl.int64) * (BLOCK_K * stride_ak)", {}),
    ("channels-last+joined-products", "convolution", "* n_sum + idx_x_c[:, None] + (part == 1) * arg_W_low", TILE),
    ("joined-taps", "volume", "mask_x = (idx_n < BATCH)[:, None] & (summed < N_SUM)[None, :]", VOLUME_TILE),
    ("joined-taps+promoted-products", "convolution", "x_taps = (tap // KERNEL_W * 4 + tap % KERNEL_W) * 16", TILE),
    ("promoted-products", "1_1", "acc += tl.dot(a_hi, b_hi, tl.dot(a_hi, b_lo, tl.dot(a_lo, b_hi)))", {}),
    ("dropped-tiles+joined-products", "triangle", "steps = tl.cdiv(K, BLOCK_K) * needed", TRIANGLE_TILE),
    ("promoted-products", "batches", "= tl.load(A + arg_A_low)", {**TRIANGLE_TILE, "BLOCK_N_0": 32}),
    ("joined-products", "batches", "A_of_step = A + tl.cast(step, tl.int64)", {**TRIANGLE_TILE, "BLOCK_N_0": 32}),
    ("constant-sizes", "2_61", "spatial: tl.constexpr", {}),
    ("epilogue-statistics", "2_61", "row_squares if FROM_PARTS else tl.sum(squares, axis=0)", {}),
    (
        "epilogue-statistics",
        "norm",
        "(row_sum if FROM_PARTS else tl.sum(tmp3, 1))[:, None]",
        {**WIDE, "BLOCK_N_0": 256},
    ),
]


@pytest.mark.parametrize(("rules", "name", "expected", "config"), FIRES)
def test_fires_and_stays_correct(
    evaluator: LocalEvaluator, rules: str, name: str, expected: str, config: dict[str, int | str]
) -> None:
    case = case_of(name)
    kernel = applied(rules, case.kernel).kernel
    assert expected in kernel.source
    if name in SHIPPED:
        assert attempted(BY_NAME[rules], kernel, MACHINE) is None, "it has nothing left to do"
    for _ in range(DRAWS):
        (found,) = evaluator.evaluate(case.problem, kernel, [Config(config)])
        if found.ok:
            break
    assert found.status is Status.OK, found.message


def test_tiles_that_are_wider_than_rows_leave_the_norm_as_it_was(evaluator: LocalEvaluator) -> None:
    kernel = applied("epilogue-statistics", case_of("norm").kernel).kernel
    assert "from_parts = 512 % 1024 == 0 or (1024 % BLOCK_N_0 == 0 and 512 % BLOCK_N_0 == 0)" in kernel.source
    (found,) = evaluator.evaluate(case_of("norm").problem, kernel, [Config({**WIDE, "BLOCK_N_0": 1024})])
    assert found.status is Status.OK, found.message


def changed(kernel: PythonKernel, *replacements: tuple[str, str]) -> PythonKernel:
    source = kernel.source
    for old, new in replacements:
        assert old in source, old
        source = source.replace(old, new)
    return PythonKernel.parse(source)


PRODUCT = "acc = tl.dot(x_hi, w_hi, acc)"
DOES_NOT_FIRE = [
    ("channels-last", "2_10", (("x = x.contiguous()", "x = x[:, ::2]"),), "a view has holes"),
    ("channels-last", "2_10", (("& (iw < IW)", ""),), "a pixel may be of the next line"),
    ("channels-last", "2_10", (("(w >= 0) & ", ""),), "a pixel may be of the line before"),
    ("channels-last", "2_10", (("hit = hit & (", "hit = w_ok | ("),), "the mask is not a sum of conditions"),
    ("channels-last", "2_10", (("x_ptr += sample * CI * IH * IW", "x_ptr += sample * IH * IW"),), "no whole sample"),
    ("channels-last", "2_10", (("            ih = h //", "            iw = w\n            ih = h //"),), "two values"),
    ("joined-products", "1_1", (("a_ptrs += BLOCK_K", "a_ptrs += k"),), "each step goes further"),
    (
        "joined-products",
        "1_1",
        (("    acc = tl.zeros", "    if M > 1:\n        a_ptrs = a_ptrs + 1\n    acc = tl.zeros"),),
        "the start depends on a condition",
    ),
    ("joined-products", "1_1", (("    c_ptrs =", "    a_ptrs += 1\n    c_ptrs ="),), "the pointers are used later"),
    ("epilogue-statistics", "2_61", (("x - mean", "x - 0.5"),), "a deviation from something else"),
    ("epilogue-statistics", "2_61", (("y = torch.empty_like(convolved)", "y = convolved.relu_()"),), "it is changed"),
    ("epilogue-statistics", "2_61", (("& (voxels[None, :] < n_voxels)\n", "\n"),), "lines may run into each other"),
    ("epilogue-statistics", "2_61", (("co[:, None] * n_voxels +", "co[:, None] * OD +"),), "lines overlap"),
    ("epilogue-statistics", "2_61", (("x_ptr += pid.to(tl.int64) * size", "x_ptr += pid.to(tl.int64)"),), "no rows"),
]


@pytest.mark.parametrize(("rule", "name", "replacements", "reason"), DOES_NOT_FIRE)
def test_does_not_fire(rule: str, name: str, replacements: tuple[tuple[str, str], ...], reason: str) -> None:
    assert attempted(BY_NAME[rule], changed(SHIPPED[name], *replacements), MACHINE) is None, reason


PRODUCTS = "acc = tl.dot(a_hi, b_lo, acc)"
NO_TAPS = [
    (("& (idx_x_w < IN_W)[:, None]\n", "\n"), "no border on one side"),
    (("OUT_W = 5", "OUT_W = 6"), "a pixel of the output lies beyond the border"),
    (("group = 0", "group = tl.program_id(2)"), "it has groups"),
    (("BATCH = 8", "BATCH = 1 << 30"), "a size that is not a number"),
    (("BATCH = 8", "BATCH = 1073741824"), "indices of 32 bits do not reach it"),
    (("    mask = (\n", "    acc = acc + tl.sum(matrix_x, 1)[:, None]\n    mask = (\n"), "a tile is read later"),
    (("matrix_w, acc, PRECISION", "matrix_w + k, acc, PRECISION"), "the product reads what the loop counts"),
    (("(idx_n < BATCH)[:, None]\n        & (idx_y_d", "(tl.load(X) > 0) & (idx_y_d"), "the input is read once more"),
]


@pytest.mark.parametrize(("replacement", "reason"), NO_TAPS)
def test_taps_are_not_joined(replacement: tuple[str, str], reason: str) -> None:
    assert attempted(BY_NAME["joined-taps"], changed(volume_from_inductor().kernel, replacement), MACHINE) is None, (
        reason
    )


def test_tensors_with_channels_side_by_side_are_read_in_place() -> None:
    kernel = applied("joined-taps", from_inductor("1_63")).kernel
    assert "x_rows = " in kernel.source and "pack_pixels" not in kernel.source
    padded = changed(from_inductor("1_63"), ("PADDING_W: tl.constexpr = 0", "PADDING_W: tl.constexpr = 1"))
    packed = applied("joined-taps", padded).kernel.source
    assert "pack_pixels[(triton.cdiv(16809984, 64)" in packed and "pack_taps[" not in packed, "with a border"


NO_CONSTANT = [
    ("start + cols < n_cols", "start + cols < n_cols.to(tl.int64)", "a constant has no methods"),
    ("    row_start = ", "    n_cols = n_cols + 0\n    row_start = ", "it is assigned"),
    ("n_rows, n_cols = x.shape", "n_rows, n_cols = len(x), x.sum()", "a tensor"),
    ("n_rows, n_cols = x.shape", "n_rows, n_cols = x.shape[0], self.scale", "it may be no whole number"),
]


@pytest.mark.parametrize(("old", "new", "reason"), NO_CONSTANT)
def test_what_may_be_no_whole_number_stays_a_parameter(old: str, new: str, reason: str) -> None:
    softmax = find_kernel("1_23", "triton").read()
    assert "n_cols: tl.constexpr" in applied("constant-sizes", softmax).kernel.source
    assert attempted(BY_NAME["constant-sizes"], changed(softmax, (old, new)), MACHINE) is None, reason


def test_factors_of_a_norm_stay_parameters() -> None:
    assert "eps: tl.constexpr" not in applied("constant-sizes", SHIPPED["2_61"]).kernel.source


KEPT = [
    ("tmp5 = tl.where(tmp2, tmp3, tmp4)", "tmp5 = tl.where(tmp3 > 0.0, tmp3, tmp4)", "the condition is of the sum"),
    ("tmp5 = tl.where(tmp2, tmp3, tmp4)", "tmp5 = tl.where(tmp2, tmp3, tmp3 * 0.5)", "both are of the sum"),
    ("tmp5 = tl.where(tmp2, tmp3, tmp4)", "tmp5 = tl.where(tmp2, tmp3, tmp4) + acc", "the sum gets on besides"),
    ("tmp2 = tmp0 <= tmp1", "tmp2 = tl.load(out_ptr0 + xindex) <= 0", "the condition comes from memory"),
    ("tmp2 = tmp0 <= tmp1", "tmp2 = tmp0 <= a_k_idx_vals", "the condition is of the loop"),
    ("for k_idx in range(0, ", "for k_idx in range(1, ", "the loop begins elsewhere"),
]


@pytest.mark.parametrize(("old", "new", "reason"), KEPT)
def test_sums_that_are_kept_stay(old: str, new: str, reason: str) -> None:
    fused = applied("fuse-neighbour", from_inductor("1_15")).kernel
    assert attempted(BY_NAME["dropped-tiles"], changed(fused, (old, new)), MACHINE) is None, reason


def test_products_are_promoted_where_they_follow_each_other() -> None:
    chained = applied("split-operands", SHIPPED["1_1"]).kernel
    assert "acc += tl.dot(a_hi, b_hi, tl.dot(" in applied("promoted-products", chained).kernel.source
    for line in ("acc = acc * 1.0", "acc = tl.dot(a_hi, b_hi, acc)"):
        between = changed(chained, (PRODUCTS, f"{PRODUCTS}\n        {line}"))
        assert attempted(BY_NAME["promoted-products"], between, MACHINE) is None, line


def test_first_kernels_start_with_products_on_tensor_cores() -> None:
    for name in ("split-precision", "promoted-products"):
        kernel = applied(name, from_inductor("2_12")).kernel
        assert kernel.config["NUM_WARPS_0"] == 8, "two accumulators of 128 x 128 do not fit into 4 warps"
    assert applied("split-precision", from_inductor("1_3")).kernel.config["PRECISION"] == "bf16x3-promoted"


def test_what_first_kernels_of_torchs_compiler_do_not_allow() -> None:
    for rule, name, reason in (
        ("channels-last", "1_54", "three channels are too few"),
        ("epilogue-statistics", "2_21", "a tile's pixels are of two samples"),
    ):
        assert attempted(BY_NAME[rule], from_inductor(name), MACHINE) is None, reason


def test_parts_that_are_chained_already_are_joined() -> None:
    chained = applied("split-operands", SHIPPED["2_12"]).kernel
    joined = applied("joined-products", chained)
    assert joined.parameters == () and joined.kernel.source.count("tl.dot(") == 1
    for old, new in (
        ("acc = tl.dot(x_lo, w_hi, acc)", "acc = tl.dot(x_lo, w_lo, acc)"),
        ("x_ptrs + x_ptr_low", "x_ptrs + 2 * x_ptr_low"),
        (PRODUCT, f"{PRODUCT}\n        w_hi = x_lo"),
    ):
        assert attempted(BY_NAME["joined-products"], changed(chained, (old, new)), MACHINE) is None, new
