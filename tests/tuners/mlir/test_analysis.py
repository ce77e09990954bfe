from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kernelwright.core import MlirProblem, ProblemError
from kernelwright.tuners.mlir.analysis import analyse

from .modules import BODY, CONVOLUTION, MAPS, SEED, convolution, generic, matmul, module

TRANSPOSED = "linalg.matmul " + MAPS.format("m, n, k", "{}", "{}", "m, n")
KINDS = {
    "matmul": SEED,
    "batch_matmul": module("linalg.batch_matmul", "3x4x8xf32", "3x8x6xf32", "3x4x6xf32"),
    "matmul_transpose_a": module(TRANSPOSED.format("k, m", "k, n"), "8x4xf32", "8x6xf32", "4x6xf32"),
    "matmul_transpose_b": module(TRANSPOSED.format("m, k", "n, k"), "4x8xf32", "6x8xf32", "4x6xf32"),
    "contraction": module(
        generic("a, b, n, k", "a, b, k", "n, k", "a, b, n"), "2x3x8xf32", "5x8xf32", "2x3x5xf32", BODY
    ),
    "conv_2d": convolution(2, stride=2),
}

DYNAMIC = """func.func @f(%a: tensor<?x4xf32>, %b: tensor<4x6xf32>, %c: tensor<?x6xf32>) -> tensor<?x6xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<?x4xf32>, tensor<4x6xf32>) outs(%c : tensor<?x6xf32>) -> tensor<?x6xf32>
  return %r : tensor<?x6xf32>
}
"""


@pytest.mark.parametrize("kind", KINDS)
def test_products_and_convolutions_are_found_and_computed(kind: str) -> None:
    problem = analyse(KINDS[kind], "one")
    (operation,) = problem.operations
    assert operation.kind == kind and operation.name == f"{kind}_0"
    lhs, rhs = inputs = problem.draw(1)
    terms = {
        "matmul": "mk,kn->mn", "batch_matmul": "bmk,bkn->bmn", "matmul_transpose_a": "km,kn->mn",
        "matmul_transpose_b": "mk,nk->mn", "contraction": "abk,nk->abn",
    }  # fmt: skip
    if kind == "conv_2d":
        windows = np.lib.stride_tricks.sliding_window_view(lhs, (3, 3), axis=(1, 2))[:, ::2, ::2]
        expected = np.einsum("nhwcyx,yxco->nhwo", windows, rhs)
    else:
        expected = np.einsum(terms[kind], lhs, rhs)
    (found,) = problem.reference(inputs) or [None]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_the_seeds_module_is_a_product_of_1024_by_256_by_512() -> None:
    problem = analyse(SEED, "matmul")
    assert (problem.function, problem.integers) == ("matmul", {"M": 1024, "N": 512, "K": 256})
    assert [str(tensor) for tensor in (*problem.inputs, *problem.results)] == [
        "1024x256xf32",
        "256x512xf32",
        "1024x512xf32",
    ]
    assert problem.flops == 2 * 1024 * 512 * 256
    assert problem.traffic == 4 * (1024 * 256 + 256 * 512 + 1024 * 512)
    first, again = problem.draw(3), problem.draw(3)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


def test_inputs_of_half_precision_make_sums_exact() -> None:
    problem = analyse(matmul(16, 16, 512, "f16"), "half")
    lhs, rhs = inputs = problem.draw(0)
    (found,) = problem.reference(inputs) or [None]
    assert found is not None and found.dtype == np.float16
    assert np.array_equal(found, lhs.astype(np.float64) @ rhs.astype(np.float64))


def test_a_function_that_numpy_does_not_know_has_no_reference() -> None:
    text = matmul(4, 4, 4).replace("return %r", "%e = math.exp %r : tensor<4x4xf32>\n  return %e")
    problem = analyse(text, "exponential")
    assert problem.operations and problem.reference(problem.draw(0)) is None


def test_a_product_of_unsigned_numbers_has_no_reference() -> None:
    unsigned = "linalg.matmul {cast = #linalg.type_fn<cast_unsigned>}"
    for operation, known in (("linalg.matmul", True), (unsigned, False)):
        problem = analyse(module(operation, "4x8xi8", "8x4xi8", "4x4xi32").replace("0.0 :", "0 :"), "whole")
        assert problem.operations and (problem.steps is not None) == known


def test_what_has_no_schedule_is_named_with_the_reason() -> None:
    pooling = CONVOLUTION.format(1)
    text = matmul(4, 4, 4).replace(
        "return %r : tensor<4x4xf32>",
        f"""%i = tensor.empty() : tensor<1x2x2x1xf32>
  %w = tensor.empty() : tensor<2x2xf32>
  %x = tensor.empty() : tensor<1x3x3x1xf32>
  %m = linalg.pooling_nhwc_max {pooling} ins(%x, %w : tensor<1x3x3x1xf32>, tensor<2x2xf32>)
         outs(%i : tensor<1x2x2x1xf32>) -> tensor<1x2x2x1xf32>
  return %r : tensor<4x4xf32>""",
    )
    problem = analyse(text, "pooled")
    assert [operation.name for operation in problem.operations] == ["matmul_0"]
    assert problem.remarks == ("linalg.pooling_nhwc_max is not scheduled: it is depthwise, grouped or a pooling",)


QUANTIZED_PRODUCT = """func.func @f(%l: tensor<8x6xi8>, %r: tensor<6x4xi8>, %o: tensor<8x4xi32>) -> tensor<8x4xi32> {
  %z = arith.constant 3 : i32
  %0 = linalg.quantized_matmul ins(%l, %r, %z, %z : tensor<8x6xi8>, tensor<6x4xi8>, i32, i32)
         outs(%o : tensor<8x4xi32>) -> tensor<8x4xi32>
  return %0 : tensor<8x4xi32>
}"""
QUANTIZED_CONVOLUTION = """func.func @f(%x: tensor<1x8x8x4xi8>, %w: tensor<3x3x4x8xi8>, %o: tensor<1x6x6x8xi32>)
    -> tensor<1x6x6x8xi32> {
  %z = arith.constant 3 : i32
  %0 = linalg.conv_2d_nhwc_hwcf_q ins(%x, %w, %z, %z : tensor<1x8x8x4xi8>, tensor<3x3x4x8xi8>, i32, i32)
         outs(%o : tensor<1x6x6x8xi32>) -> tensor<1x6x6x8xi32>
  return %0 : tensor<1x6x6x8xi32>
}"""


@pytest.mark.parametrize("text", [QUANTIZED_PRODUCT, QUANTIZED_CONVOLUTION], ids=["product", "convolution"])
def test_what_is_quantized_says_so_and_how_to_go_on(text: str) -> None:
    with pytest.raises(ProblemError, match="it is quantized: products with zero points are not scheduled") as caught:
        analyse(text, "quantized")
    command = str(caught.value).partition("iree-opt ")[2]
    tool = str(Path(sys.executable).with_name("iree-opt"))
    lowered = subprocess.run([tool, *shlex.split(command)], input=text, capture_output=True, text=True, check=True)
    assert len(analyse(lowered.stdout, "lowered").operations) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SEED.replace("linalg.fill", "linalg.fil"), r"bad, line 11, column 14: custom op 'linalg.fil' is unknown"),
        (SEED.replace("256x512xf32", "128x512xf32"), r"bad, line 12"),
        (DYNAMIC, r"linalg.matmul has the dynamic shape tensor<\?x4xf32>; write its sizes into the module"),
        (
            "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }",
            "has nothing to schedule; give",
        ),
        (
            "func.func @f(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {\n"
            "  %r = stablehlo.dot %a, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>\n"
            "  return %r : tensor<4x4xf32>\n}",
            "it is written in stablehlo: lower it first: iree-compile --compile-to=input",
        ),
        (
            "func.func @f(%a: !torch.vtensor<[4,4],f32>) -> !torch.vtensor<[4,4],f32> {\n"
            '  %r = torch.operator "onnx.MatMul"(%a, %a) : (!torch.vtensor<[4,4],f32>, !torch.vtensor<[4,4],f32>)'
            " -> !torch.vtensor<[4,4],f32>\n  return %r : !torch.vtensor<[4,4],f32>\n}",
            "it is written in torch: lower it first: iree-opt --torch-onnx-to-torch-backend-pipeline",
        ),
        (
            "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
            "  %r = func.call @g(%a) : (tensor<4xf32>) -> tensor<4xf32>\n  return %r : tensor<4xf32>\n}\n"
            "func.func private @g(tensor<4xf32>) -> tensor<4xf32>",
            "put it into this one with iree-opt --inline",
        ),
        (matmul(4, 4, 0), "a loop of it has no steps"),
        (module("linalg.dot", "4xf32", "4xf32", "f32"), "its result is one number"),
        ("func.func private @f()", "no public function with a body"),
        (matmul(4, 4, 4) + matmul(4, 4, 4).replace("@f", "@g"), "several functions, f, g; name one with `function`"),
        (matmul(4, 4, 4).replace("%a: ", "%n: index, %a: "), "argument 0 is index; write it as a tensor of static"),
    ],
)
def test_bad_modules_are_refused_in_one_line(text: str, why: str) -> None:
    with pytest.raises(ProblemError, match=why) as refusal:
        analyse(text, "bad")
    assert "\n" not in str(refusal.value)


def test_a_function_is_chosen_by_its_name() -> None:
    two = matmul(4, 4, 4) + matmul(8, 8, 8).replace("@f", "@g")
    assert analyse(two, "two", "g").integers["M"] == 8
    with pytest.raises(ProblemError, match="no public function 'h'; it has f, g"):
        analyse(two, "two", "h")


def test_another_kind_of_problem_is_refused_by_name() -> None:
    problem = analyse(matmul(4, 4, 4), "small")
    assert MlirProblem.of(problem) is problem
    assert problem.at("default").sizes == {}
    with pytest.raises(ProblemError, match="stand in the module"):
        problem.at("M=8")


def test_without_iree_the_extra_to_install_is_named() -> None:
    code = (
        "import sys; sys.modules['iree.compiler'] = None\n"
        "from kernelwright.tuners.mlir.analysis import analyse\n"
        "from kernelwright.core import OptionError\n"
        "try: analyse('module {}', 'x')\n"
        "except OptionError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "IREE is not installed; install the extra: pip install 'kernelwright[iree]'"
