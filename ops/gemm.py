"""Matrix products by the shipped kernels, with the configs that `kernelwright tune gemm` found.

A process reads a shape's config once: files that are written later count from the next process on.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..core import Config
from ..corpus.kernels import SHIPPED
from ..tuners.gemm.analytic import DESCRIBED
from ..tuners.gemm.device import BLOCK_FORMATS, H200_LIMITS, Device
from ..tuners.gemm.fields import VARIANT
from ..tuners.gemm.lookup import load_config
from ..tuners.gemm.shapes import COLUMNS, ROWS, Shape
from ..tuners.gemm.stores.store import TRITON

if TYPE_CHECKING:
    from torch import Tensor

FP8 = "float8_e4m3fn"
WIDE = ("float16", "bfloat16")
ALIGNED = 16
"""Tensor descriptors need rows whose size is a multiple of this many bytes."""


def gemm(A: Tensor, B: Tensor, *, backend: str = TRITON) -> Tensor:
    """Return A (M, K) times B (K, N), each row- or column-major: fp16 or bf16 with a result of the same dtype, fp8 with
    one of bf16; added in fp32. `backend` is the language of the kernel. Raises `ValueError` for other shapes or dtypes.
    """
    dtype = str(A.dtype).removeprefix("torch.")
    if A.dim() != 2 or B.dim() != 2 or A.shape[1] != B.shape[0]:
        raise ValueError(f"no product of shapes {tuple(A.shape)} and {tuple(B.shape)}: they must be (M, K) and (K, N)")
    if A.dtype != B.dtype or dtype not in (*WIDE, FP8):
        raise ValueError(f"no product of {A.dtype} and {B.dtype}: both must be float16, bfloat16 or float8_e4m3fn")
    layout = "".join(COLUMNS if item.stride(0) == 1 and item.stride(1) != 1 else ROWS for item in (A, B))
    shape = Shape(m=A.shape[0], n=B.shape[1], k=A.shape[1], layout=layout)
    return _module("gemm", backend, _config("gemm", backend, shape, dtype, _index(A)), "").ModelNew()(A, B)


def a8w8_blockscale(
    A: Tensor, B: Tensor, As: Tensor, Bs: Tensor, dtype: str = "bfloat16", *, backend: str = TRITON
) -> Tensor:
    """Return A (M, K) times the transpose of B (N, K), both fp8: As (M, K / 128) scales blocks of 1x128 of A, Bs
    (N / 128, K / 128) blocks of 128x128 of B. `dtype` is the result's, bfloat16 or float16. Raises `ValueError` for
    shapes that do not fit.
    """
    blocks = -(-A.shape[1] // 128)
    if A.shape[1] != B.shape[1] or As.shape != (A.shape[0], blocks) or Bs.shape != (-(-B.shape[0] // 128), blocks):
        shapes = ", ".join(str(tuple(item.shape)) for item in (A, B, As, Bs))
        raise ValueError(f"no product of shapes {shapes}: see a8w8_blockscale's documentation")
    shape = Shape(m=A.shape[0], n=B.shape[0], k=A.shape[1])
    config = _config("a8w8_blockscale", backend, shape, FP8, _index(A))
    return _module("a8w8_blockscale", backend, config, dtype).ModelNew()(A, B, As, Bs)


def mxfp8(A: Tensor, B: Tensor, As: Tensor, Bs: Tensor, dtype: str = "bfloat16") -> Tensor:
    """Return A (M, K) times the transpose of B (N, K), both e4m3: As (M, K / 32) and Bs (N, K / 32) are exponents of
    two, plus 127, as uint8. `dtype` is the result's, bfloat16 or float16. Raises `ValueError` for shapes that do not
    fit, and `OptionError` for a GPU without such products.
    """
    shape = _of_scaled("mxfp8", A, B, As, Bs)
    result: Tensor = _module("mxfp8", TRITON, _scaled_config("mxfp8", shape, A), dtype).ModelNew()(A, B, As, Bs)
    return result


def nvfp4(A: Tensor, B: Tensor, As: Tensor, Bs: Tensor, alpha: Tensor, dtype: str = "bfloat16") -> Tensor:
    """Return alpha (1,) times A (M, K) times the transpose of B (N, K), both e2m1 with two values in a byte, the first
    in its lower half: As (M, K / 16) and Bs (N, K / 16) are e4m3. Else as `mxfp8`.
    """
    shape = _of_scaled("nvfp4", A, B, As, Bs)
    result: Tensor = _module("nvfp4", TRITON, _scaled_config("nvfp4", shape, A), dtype).ModelNew()(A, B, As, Bs, alpha)
    return result


def _of_scaled(product: str, A: Tensor, B: Tensor, As: Tensor, Bs: Tensor) -> Shape:
    """Return the shape of a product with scales along K; raises `ValueError` for shapes that do not fit."""
    k = A.shape[1] * (2 if product == "nvfp4" else 1)
    scales = k // BLOCK_FORMATS[product]
    fits = k % BLOCK_FORMATS[product] == 0 and A.shape[1] == B.shape[1]
    if not fits or As.shape != (A.shape[0], scales) or Bs.shape != (B.shape[0], scales):
        shapes = ", ".join(str(tuple(item.shape)) for item in (A, B, As, Bs))
        raise ValueError(f"no product of shapes {shapes}: see {product}'s documentation")
    return Shape(m=A.shape[0], n=B.shape[0], k=k)


def _scaled_config(product: str, shape: Shape, A: Tensor) -> Config:
    """Return the config of such a product. Raises `OptionError` for a GPU that lacks it."""
    if (index := _index(A)) is not None:
        Device.of_torch(index).require(product)
    return _config(product, TRITON, shape, product, index)


def moe(
    x: Tensor,
    w1: Tensor,
    w2: Tensor,
    weights: Tensor,
    ids: Tensor,
    w1_scale: Tensor | None = None,
    w2_scale: Tensor | None = None,
) -> Tensor:
    """Return, for tokens x (M, K), the sum over their experts of w2 (silu(gate) * factor).

    Gate and factor are the halves of w1 x; w1 is (E, 2 N, K), w2 (E, K, N), all fp16 or bf16. `ids` (M, top k; int32,
    each below E) names the experts, `weights` (M, top k; fp32) their shares. The experts may be fp8 with fp32 scales
    of 128x128 blocks, w1_scale (E, 2 N / 128, K / 128) and w2_scale (E, K / 128, N / 128): what they multiply is
    rounded to fp8 with a scale per 1x128. Raises `ValueError` for shapes or dtypes that do not fit.
    """
    experts, hidden, width = w2.shape
    if x.shape[1] != hidden or w1.shape != (experts, 2 * width, hidden) or not ids.shape == weights.shape == (
        x.shape[0], ids.shape[-1]
    ):  # fmt: skip
        shapes = ", ".join(str(tuple(item.shape)) for item in (x, w1, w2, weights, ids))
        raise ValueError(f"no experts of shapes {shapes}: see moe's documentation")
    dtype = _dtype_of_experts(x, (w1, w2), (w1_scale, w2_scale))
    shape = Shape(m=x.shape[0], n=width, k=hidden, experts=experts, top_k=ids.shape[1])
    config = _config("moe", TRITON, shape, dtype, _index(x))
    result: Tensor = _module("moe", TRITON, config, "").fused_moe(x, w1, w2, weights, ids, w1_scale, w2_scale)
    return result


def _dtype_of_experts(x: Tensor, weights: Sequence[Tensor], scales: Sequence[Tensor | None]) -> str:
    """Return the dtype of the weights; raises `ValueError` where tokens, weights and scales do not fit."""
    x_dtype, *dtypes = (str(item.dtype).removeprefix("torch.") for item in (x, *weights))
    wide = [scale for scale in scales if scale is not None]
    if x_dtype not in WIDE or dtypes not in ([x_dtype, x_dtype], [FP8, FP8]):
        raise ValueError(
            f"no experts of {x_dtype}, {' and '.join(dtypes)}: all must be float16 or bfloat16, or both weights {FP8}"
        )
    blocks = [
        (weight.shape[0], -(-weight.shape[1] // 128), -(-weight.shape[2] // 128))
        for weight in weights
        if dtypes[0] == FP8
    ]
    if (found := [tuple(scale.shape) for scale in wide]) != blocks:
        raise ValueError(f"no experts with scales of shapes {found}: {dtypes[0]} weights need {blocks or 'none'}")
    return dtypes[0]


def _index(tensor: Tensor) -> int | None:
    """Return the GPU's number; None for the CPU, where Triton's interpreter runs the kernel."""
    return tensor.device.index or 0 if tensor.is_cuda else None


@functools.lru_cache(maxsize=65536)
def _config(kernel: str, backend: str, shape: Shape, dtype: str, index: int | None) -> Config:
    device = Device("cpu", H200_LIMITS) if index is None else Device.of_torch(index)
    config = load_config(
        kernel, shape.m, shape.n, shape.k, device, dtype, shape.layout,
        experts=shape.experts, top_k=shape.top_k, backend=backend,
    )  # fmt: skip
    width = 1 if dtype.startswith("float8") else 2
    contiguous = shape.k if shape.layout[0] == ROWS else shape.m, shape.n if shape.layout[1] == ROWS else shape.k
    rows = [*(extent * width for extent in contiguous), shape.n * 2]
    # An entry serves a range of M, and a default file any N and K: what was possible at its own size need not be here.
    if config.get(VARIANT) in DESCRIBED and any(row % ALIGNED for row in rows):
        config = Config({**config, VARIANT: "persistent"})
    return config


@functools.cache
def _module(kernel: str, backend: str, config: Config, out: str) -> Any:
    """Return the kernel's file as a module with these constants."""
    path = SHIPPED / backend / "gemm" / f"{kernel}.py"
    name = f"kernelwright_{backend}_{kernel}_{abs(hash((config, out)))}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, value in {**config, **({"OUT": out} if out else {})}.items():
        setattr(module, name, value)
    return module
