"""Modules to schedule."""

from __future__ import annotations

SEED = """!matrixA_type = tensor<1024x256xf32>
!matrixB_type = tensor<256x512xf32>
!matrixC_type = tensor<1024x512xf32>

module @arithmetic {
   func.func @matmul(
        %arg0: !matrixA_type , %arg1: !matrixB_type)
            -> !matrixC_type {
        %cst = arith.constant 0.000000e+00 : f32
        %init = tensor.empty() : !matrixC_type
        %1 = linalg.fill ins(%cst : f32) outs(%init : !matrixC_type) -> !matrixC_type
        %3 = linalg.matmul ins(%arg0, %arg1: !matrixA_type, !matrixB_type)
                            outs(%1: !matrixC_type)
            -> !matrixC_type
        func.return %3 : !matrixC_type
    }
}
"""
SEED_CFG = """[Env]
iree_bin = xxx/iree_build/tools
input_file = matmul.mlir
output_file = matmul.csv

input_file = matmul.mlir
output_file = matmul.csv

[SearchSpace]
tile_m = [64,128]
tile_n = [32,64]
tile_k = [32,64,128,256]
block_dim_x = [64]
block_dim_y = [2]
block_dim_z = [1]
pipeline_depth = [2]

[SearchStrategy]
tuner = XGBoostTuner
n_trial = 16
"""
MAPS = "indexing_maps = [affine_map<({0}) -> ({1})>, affine_map<({0}) -> ({2})>, affine_map<({0}) -> ({3})>]"
BODY = """{ ^bb0(%x: f32, %y: f32, %s: f32):
    %p = arith.mulf %x, %y : f32
    %q = arith.addf %s, %p : f32
    linalg.yield %q : f32 }"""
CONVOLUTION = "{{dilations = dense<1> : tensor<2xi64>, strides = dense<{}> : tensor<2xi64>}}"


def module(operation: str, lhs: str, rhs: str, result: str, body: str = "") -> str:
    """A function of one operation that begins with zeros; types as `4x8xf32`."""
    element = result.rpartition("x")[2]
    return f"""func.func @f(%a: tensor<{lhs}>, %b: tensor<{rhs}>) -> tensor<{result}> {{
  %zero = arith.constant 0.0 : {element}
  %empty = tensor.empty() : tensor<{result}>
  %start = linalg.fill ins(%zero : {element}) outs(%empty : tensor<{result}>) -> tensor<{result}>
  %r = {operation} ins(%a, %b : tensor<{lhs}>, tensor<{rhs}>) outs(%start : tensor<{result}>) {body} -> tensor<{result}>
  return %r : tensor<{result}>
}}
"""


def matmul(m: int, n: int, k: int, element: str = "f32") -> str:
    return module("linalg.matmul", f"{m}x{k}x{element}", f"{k}x{n}x{element}", f"{m}x{n}x{element}")


def generic(loops: str, lhs: str, rhs: str, result: str, reductions: int = 1) -> str:
    """The operation's text for `module`, without its body: loops as `m, n, k`."""
    count = len(loops.split(","))
    kinds = ['"parallel"'] * (count - reductions) + ['"reduction"'] * reductions
    return f"linalg.generic {{{MAPS.format(loops, lhs, rhs, result)}, iterator_types = [{', '.join(kinds)}]}}"


def convolution(batch: int, stride: int = 1) -> str:
    size = 8
    operation = f"linalg.conv_2d_nhwc_hwcf {CONVOLUTION.format(stride)}"
    edge = (size - 1) * stride + 3
    return module(operation, f"{batch}x{edge}x{edge}x8xf32", "3x3x8x16xf32", f"{batch}x{size}x{size}x16xf32")


FOUR = """func.func @network(%x: tensor<2x10x10x8xf32>, %w: tensor<3x3x8x16xf32>, %a: tensor<64x96xf32>,
    %b: tensor<96x48xf32>, %c: tensor<48x32xf32>, %d: tensor<32x64xf32>)
    -> (tensor<2x8x8x16xf32>, tensor<64x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<2x8x8x16xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<2x8x8x16xf32>) -> tensor<2x8x8x16xf32>
  %r0 = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%x, %w : tensor<2x10x10x8xf32>, tensor<3x3x8x16xf32>) outs(%f0 : tensor<2x8x8x16xf32>)
      -> tensor<2x8x8x16xf32>
  %e1 = tensor.empty() : tensor<64x48xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<64x48xf32>) -> tensor<64x48xf32>
  %r1 = linalg.matmul ins(%a, %b : tensor<64x96xf32>, tensor<96x48xf32>) outs(%f1 : tensor<64x48xf32>)
      -> tensor<64x48xf32>
  %e2 = tensor.empty() : tensor<64x32xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<64x32xf32>) -> tensor<64x32xf32>
  %r2 = linalg.matmul ins(%r1, %c : tensor<64x48xf32>, tensor<48x32xf32>) outs(%f2 : tensor<64x32xf32>)
      -> tensor<64x32xf32>
  %e3 = tensor.empty() : tensor<64x64xf32>
  %f3 = linalg.fill ins(%zero : f32) outs(%e3 : tensor<64x64xf32>) -> tensor<64x64xf32>
  %r3 = linalg.matmul ins(%r2, %d : tensor<64x32xf32>, tensor<32x64xf32>) outs(%f3 : tensor<64x64xf32>)
      -> tensor<64x64xf32>
  return %r0, %r3 : tensor<2x8x8x16xf32>, tensor<64x64xf32>
}
"""
