"""bf16 and fp8, which the interpreter keeps as whole numbers, as fp32 and back."""

from __future__ import annotations

from functools import cache
from typing import Any

from ...workers.modules import unobserved


@cache
def _eight_bits() -> dict[str, Any]:
    """Torch's types by Triton's names; fp8e4b15 has none."""
    import torch

    return {
        "fp8e4nv": torch.float8_e4m3fn,
        "fp8e5": torch.float8_e5m2,
        "fp8e4b8": torch.float8_e4m3fnuz,
        "fp8e5b16": torch.float8_e5m2fnuz,
    }


def is_narrow(dtype: Any) -> bool:
    """Return whether NumPy has no such type, and `widened` knows its numbers."""
    name = dtype.name
    return name == "bf16" or (name[:3] == "fp8" and name in _eight_bits())


def widened(handle: Any) -> Any:
    """Return a handle with its numbers as fp32, where they are bf16 or fp8; any other as it is."""
    import numpy as np
    import torch
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    dtype = handle.dtype.scalar
    if not is_narrow(dtype):
        return handle
    if dtype.name == "bf16":
        data = (handle.data.astype(np.uint32) << 16).view(np.float32)
    else:
        raw = torch.from_numpy(np.array(handle.data, dtype=np.uint8))
        with unobserved():
            data = raw.view(_eight_bits()[dtype.name]).float().numpy()
    return TensorHandle(data, tl.float32)


def narrowed(data: Any, dtype: Any) -> Any:
    """Return a handle of bf16 or fp8 with numbers rounded to the nearest, of two the even one.

    As GPUs do, fp8 stays finite: what is beyond the largest number becomes that.
    """
    import numpy as np
    import torch
    from triton.runtime.interpreter import TensorHandle

    dtype = dtype.scalar
    wide = np.ascontiguousarray(data, dtype=np.float32)
    if dtype.name == "bf16":
        bits = wide.view(np.uint32)
        rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
        found = np.where(np.isnan(wide), (bits >> 16) | 0x40, rounded)  # an overflow would make a NaN infinite
        return TensorHandle(found.astype(np.uint16).reshape(np.shape(data)), dtype)
    eight = _eight_bits()[dtype.name]
    limits = torch.finfo(eight)
    with unobserved():
        found = torch.from_numpy(wide.copy()).clamp(limits.min, limits.max).to(eight).view(torch.uint8).numpy()
    return TensorHandle(found.reshape(np.shape(data)), dtype)
