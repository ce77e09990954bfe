"""Kernels, profiles and a space of tiles on which the model of tiles is tried, with the limits of an H200."""

from __future__ import annotations

import kernelwright.core.languages as languages
from kernelwright.core import Ceilings, DeviceLimits, MatrixProduct, Profile, PythonKernel, SearchSpace, Target
from kernelwright.tuners.hardware import TileModel

TRITON = PythonKernel(languages.TRITON, Target.CUDA, "acc = tl.dot(a, b, acc)", "triton")
TILELANG = PythonKernel(languages.TILELANG, Target.CUDA, "T.gemm(a, b, c)", "tilelang")
CPU = Profile(
    flops=1e9,
    matrix_flops=1e9,
    min_bytes=1e6,
    eager_bytes=1e6,
    ceilings=Ceilings(copy_gb_s=10, matrix_gflop_s=100, cores=2),
    device="test",
    product=MatrixProduct(m=1000, n=512, k=256, element_bytes=2),
)
LIMITS = DeviceLimits(architecture="sm_90", multiprocessors=132, shared_bytes=232448, registers=65536, threads=2048)
GPU = CPU.model_copy(update={"limits": LIMITS})
TILES = SearchSpace.of(
    {
        "BLOCK_M": [16, 64, 128, 256],
        "BLOCK_N": [16, 64, 128, 256],
        "BLOCK_K": [32, 64, 128],
        "NUM_WARPS": [2, 4, 8],
        "NUM_STAGES": [2, 3, 4],
        "LAYOUT": ["row", "column"],
    }
)


def of(space: SearchSpace, profile: Profile = GPU) -> TileModel:
    model = TileModel.of(space, profile)
    assert model is not None
    return model
