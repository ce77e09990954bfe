"""The matrix products among a call's operators: their extents, their work, and the dtype that their operands had."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..workers.channel import Message


def tensors_in(value: object) -> list[Any]:
    """Return the tensors in a value, those in its tuples and lists too."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, tuple | list):
        return [tensor for part in value for tensor in tensors_in(part)]
    return []


class Widened:
    """The dtypes that tensors had before they were widened: products may take these operands, and are as exact.

    By storage, so that views count as what they are views of.
    """

    def __init__(self) -> None:
        # The weak references keep addresses from being used a second time.
        self._before: dict[int, tuple[Any, Any]] = {}

    def dtype(self, tensor: Any) -> Any:
        """Return the narrowest dtype that holds the tensor's values."""
        return self._before.get(_storage(tensor), (None, tensor.dtype))[1]

    def note(self, func: Any, args: Sequence[Any], result: Any) -> None:
        """Take in what an operator did."""
        if func.is_view:
            return
        for written in tensors_in(result):
            self._before.pop(_storage(written), None)  # written in place, it holds other values
        if func.overloadpacket.__name__ == "_to_copy":
            before = self.dtype(args[0])
            if before.is_floating_point and result.is_floating_point() and before.itemsize < result.element_size():
                from torch.multiprocessing.reductions import StorageWeakRef

                if key := _storage(result):
                    self._before[key] = StorageWeakRef(result.untyped_storage()), before


def product_of(operator: str, args: Sequence[Any], widened: Widened) -> Message | None:
    """Return the extents of a matrix product; None for another operator."""
    if operator not in ("mm", "bmm", "addmm", "baddbmm", "_scaled_mm"):
        return None
    left, right = args[1:3] if operator in ("addmm", "baddbmm") else args[:2]
    m, k = left.shape[-2:]
    batch = left.shape[0] if left.dim() == 3 else 1
    dtype = max((widened.dtype(one) for one in (left, right)), key=lambda one: one.itemsize)
    operand = {"element_bytes": dtype.itemsize, "dtype": str(dtype).removeprefix("torch.")}
    return {"m": m, "n": right.shape[-1], "k": k, "batch": batch, **operand}


def product_flops(operator: str, args: Sequence[Any]) -> float:
    """Return 2 per multiply-add for products without a formula in torch; 0 for other operators."""
    multiply_adds = 0
    if operator in ("mv", "addmv", "dot", "vdot"):
        multiply_adds = args[1 if operator == "addmv" else 0].numel()
    elif "scaled_dot_product" in operator:
        query, key, value = args[:3]
        multiply_adds = math.prod(query.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1])
    return 2.0 * multiply_adds


def larger(one: Message | None, other: Message | None) -> Message | None:
    """Return the product with more work."""

    def work(product: Message | None) -> int:
        return math.prod(product[name] for name in ("batch", "m", "n", "k")) if product else 0

    return other if work(other) > work(one) else one


def _storage(tensor: Any) -> int:
    """Return a number for the memory of a tensor; 0 for one that has none of its own."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):
        return 0
