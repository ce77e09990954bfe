"""MLIR, as IREE compiles it: no Python source, so that it is not among the languages which a source is asked for."""

from ..language import Dialect, Language, Target

MLIR = Language(
    id="mlir",
    name="MLIR",
    dialects=tuple(Dialect(target, modules=(), guide="", imports="") for target in (Target.CPU, Target.CUDA)),
    modules=("iree.compiler", "iree.runtime"),
    packages=("iree-base-compiler", "iree-base-runtime"),
)
