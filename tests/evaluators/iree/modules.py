"""Small modules, and kernels made of them by hand."""

from __future__ import annotations

from kernelwright.core import Config, MlirKernel, MlirProblem, Slot, Target
from kernelwright.core.languages.mlir import MLIR
from kernelwright.tuners.mlir.analysis import analyse

MATMUL = """
func.func @matmul(%a: tensor<32x64xf32>, %b: tensor<64x48xf32>) -> tensor<32x48xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<32x48xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<32x48xf32>) -> tensor<32x48xf32>
  %sum = linalg.matmul ins(%a, %b : tensor<32x64xf32>, tensor<64x48xf32>)
                       outs(%fill : tensor<32x48xf32>) -> tensor<32x48xf32>
  return %sum : tensor<32x48xf32>
}
"""
ADDING = """
func.func @adding(%a: tensor<32x64xf32>, %b: tensor<64x48xf32>, %start: tensor<32x48xf32>) -> tensor<32x48xf32> {
  %sum = linalg.matmul ins(%a, %b : tensor<32x64xf32>, tensor<64x48xf32>)
                       outs(%start : tensor<32x48xf32>) -> tensor<32x48xf32>
  return %sum : tensor<32x48xf32>
}
"""
"""IREE writes the result of this one into the memory of its argument."""
SCHEDULE = (
    "{compilation_info = #iree_codegen.compilation_info<lowering_config = #iree_cpu.lowering_config<"
    "distribution = [@{tile}, 48, 0], vector_common_parallel = [@{vector}, 16, 0], vector_reduction = [0, 0, 1]>, "
    "translation_info = #iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<DoubleTilingExpert>>>} "
)


def matmul_problem() -> MlirProblem:
    return analyse(MATMUL, "matmul")


def of_bf16(result: str) -> str:
    """The product with operands in bf16 and a result of the given type."""
    source = MATMUL.replace("32x64xf32", "32x64xbf16").replace("64x48xf32", "64x48xbf16")
    return source.replace("32x48xf32", f"32x48x{result}").replace(": f32", f": {result}")


def scheduled(source: str = MATMUL) -> MlirKernel:
    """The product with a tile and a vector left open."""
    before, after = source.split("linalg.matmul ")
    return kernel(source, before + "linalg.matmul ", SCHEDULE, after, tile=(16, 32), vector=(4, 8))


def started_at(source: str = MATMUL) -> MlirKernel:
    """The product with the value left open that its sums start at: only 0 is right."""
    before, after = source.split("0.0 :")
    return kernel(source, before, "@{start}.0", " :" + after, start=(0, 1))


def kernel(source: str, before: str, slot: str, after: str, **values: tuple[int, ...]) -> MlirKernel:
    pieces = (before, Slot(slot), after)
    return MlirKernel(MLIR, Target.CPU, source, "matmul", pieces=pieces, values=values, plain=source)


def configs(**values: int) -> Config:
    return Config(values)
