"""Matrix products by the shipped Triton kernels, with the configs that `kernelwright tune gemm` found.

A process reads a shape's config once: files that are written later count from the next process on.
"""

from __future__ import annotations

import functools
import importlib.util
from typing import TYPE_CHECKING, Any

from ..core import Config
from ..corpus.kernels import SHIPPED
from ..tuners.gemm.device import H200_LIMITS, Device
from ..tuners.gemm.fields import VARIANT
from ..tuners.gemm.lookup import load_config
from ..tuners.gemm.shapes import COLUMNS, ROWS

if TYPE_CHECKING:
    from torch import Tensor

ALIGNED = 16
"""Descriptors need rows of a multiple of so many bytes."""


def gemm(A: Tensor, B: Tensor) -> Tensor:
    """Return A (M, K) times B (K, N), each row- or column-major: fp16 or bf16 with a result of the same dtype, fp8 with
    one of bf16; added in fp32. Raises `ValueError` for other shapes or dtypes.
    """
    dtype = str(A.dtype).removeprefix("torch.")
    if A.dim() != 2 or B.dim() != 2 or A.shape[1] != B.shape[0]:
        raise ValueError(f"no product of shapes {tuple(A.shape)} and {tuple(B.shape)}: they must be (M, K) and (K, N)")
    if A.dtype != B.dtype or dtype not in ("float16", "bfloat16", "float8_e4m3fn"):
        raise ValueError(f"no product of {A.dtype} and {B.dtype}: both must be float16, bfloat16 or float8_e4m3fn")
    layout = "".join(COLUMNS if one.stride(0) == 1 and one.stride(1) != 1 else ROWS for one in (A, B))
    config = _config("gemm", A.shape[0], B.shape[1], A.shape[1], dtype, layout, _index(A))
    return _module("gemm", config, "").ModelNew()(A, B)


def a8w8_blockscale(A: Tensor, B: Tensor, As: Tensor, Bs: Tensor, dtype: str = "bfloat16") -> Tensor:
    """Return A (M, K) times the transpose of B (N, K), both fp8: As (M, K / 128) scales blocks of 1x128 of A, Bs
    (N / 128, K / 128) blocks of 128x128 of B. `dtype` is the result's, bfloat16 or float16. Raises `ValueError` for
    shapes that do not fit.
    """
    blocks = -(-A.shape[1] // 128)
    if A.shape[1] != B.shape[1] or As.shape != (A.shape[0], blocks) or Bs.shape != (-(-B.shape[0] // 128), blocks):
        shapes = ", ".join(str(tuple(one.shape)) for one in (A, B, As, Bs))
        raise ValueError(f"no product of shapes {shapes}: see a8w8_blockscale's documentation")
    config = _config("a8w8_blockscale", A.shape[0], B.shape[0], A.shape[1], "float8_e4m3fn", "TN", _index(A))
    return _module("a8w8_blockscale", config, dtype).ModelNew()(A, B, As, Bs)


def _index(tensor: Tensor) -> int | None:
    """Return the GPU's number; None for the CPU, where Triton's interpreter runs the kernel."""
    return tensor.device.index or 0 if tensor.is_cuda else None


@functools.lru_cache(maxsize=65536)
def _config(kernel: str, m: int, n: int, k: int, dtype: str, layout: str, index: int | None) -> Config:
    device = Device("cpu", H200_LIMITS) if index is None else Device.of_torch(index)
    config = load_config(kernel, m, n, k, device, dtype, layout)
    width = 1 if dtype.startswith("float8") else 2
    rows = [(k if layout[0] == ROWS else m) * width, (n if layout[1] == ROWS else k) * width, n * 2]
    # An entry serves a range of M, and a default file any N and K: what was possible at its own size need not be here.
    if config[VARIANT] == "tma" and any(row % ALIGNED for row in rows):
        config = Config({**config, VARIANT: "persistent"})
    return config


@functools.cache
def _module(kernel: str, config: Config, out: str) -> Any:
    """Return the kernel's file as a module with these constants."""
    path = SHIPPED / "triton" / "gemm" / f"{kernel}.py"
    spec = importlib.util.spec_from_file_location(f"kernelwright_{kernel}_{abs(hash((config, out)))}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, value in {**config, **({"OUT": out} if out else {})}.items():
        setattr(module, name, value)
    return module
