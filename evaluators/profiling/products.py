"""Matrix products and convolutions among a call's operators: their extents, work, and the dtype of their operands."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..workers.channel import Message

HIDDEN = -1e8
"""A score from here down hides its key: beside it, exponentials of others are all that counts."""


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
        return self._before.get(storage_of(tensor), (None, tensor.dtype))[1]

    def note(self, func: Any, args: Sequence[Any], result: Any) -> None:
        """Take in what an operator did."""
        if func.is_view:
            return
        for written in tensors_in(result):
            self._before.pop(storage_of(written), None)  # written in place, it holds other values
        if func.overloadpacket.__name__ == "_to_copy":
            before = self.dtype(args[0])
            if before.is_floating_point and result.is_floating_point() and before.itemsize < result.element_size():
                from torch.multiprocessing.reductions import StorageWeakRef

                if key := storage_of(result):
                    self._before[key] = StorageWeakRef(result.untyped_storage()), before


def product_of(operator: str, args: Sequence[Any], result: Any, widened: Widened) -> Message | None:
    """Return the extents of a matrix product, or of the one that a convolution is; None for another operator."""
    if operator == "convolution":
        left, right = args[:2]
        extents = _convolution(args, result)
    elif operator in ("mm", "bmm", "addmm", "baddbmm", "_scaled_mm"):
        left, right = args[1:3] if operator in ("addmm", "baddbmm") else args[:2]
        m, k = left.shape[-2:]
        extents = {"m": m, "n": right.shape[-1], "k": k, "batch": left.shape[0] if left.dim() == 3 else 1}
    else:
        return None
    if extents is None:
        return None
    dtype = max((widened.dtype(item) for item in (left, right)), key=lambda kind: kind.itemsize)
    return {**extents, "element_bytes": dtype.itemsize, "dtype": str(dtype).removeprefix("torch.")}


def _convolution(args: Sequence[Any], result: Any) -> Message | None:
    """Return a convolution's output positions, output channels, sums and taps; a batch per group.

    Of a transposed one the taps are those that reach an output: one in `stride` along each axis. None without
    channels to sum over or to share positions, such as a depthwise one: its kernels have no tiles of a product.
    """
    x, weight, _, strides, _, _, transposed, _, groups = args[:9]
    channels_in, channels_out = x.shape[1] // groups, result.shape[1] // groups
    if min(channels_in, channels_out) < 2 or not result.numel():
        return None
    # torch allows one stride for all axes.
    along = zip(weight.shape[2:], itertools.cycle(strides), strict=False)
    taps = math.prod(math.ceil(size / stride) if transposed else size for size, stride in along)
    positions = result.numel() // result.shape[1]
    return {"m": positions, "n": channels_out, "k": channels_in * taps, "batch": groups, "taps": taps}


def product_flops(operator: str, args: Sequence[Any]) -> float:
    """Return 2 per multiply-add for products without a formula in torch; 0 for other operators."""
    multiply_adds = 0
    if operator in ("mv", "addmv", "dot", "vdot"):
        multiply_adds = args[1 if operator == "addmv" else 0].numel()
    elif "scaled_dot_product" in operator:
        query, key, value = args[:3]
        multiply_adds = math.prod(query.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1])
    return 2.0 * multiply_adds


def visible_share(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> float:
    """Return which share of an attention's products no mask hides: a floor counts no others. 1 for other operators.

    Torch's formulas count all. A causal query sees the keys up to its own number; a mask is a tensor of flags, or of
    numbers of which very small ones hide.
    """
    if "scaled_dot_product" not in func.overloadpacket.__name__:
        return 1.0
    given = dict(zip((item.name for item in func._schema.arguments), args, strict=False)) | dict(kwargs)
    queries, keys = given["query"].shape[-2], given["key"].shape[-2]
    mask = given["attn_mask"] if given.get("attn_mask") is not None else given.get("attn_bias")
    if mask is not None and mask.numel():
        seen = mask if not mask.is_floating_point() else mask > HIDDEN
        return float(seen.count_nonzero()) / int(mask.numel())
    if given.get("is_causal") and queries * keys:
        return float(sum(min(query + 1, keys) for query in range(queries)) / (queries * keys))
    return 1.0


def larger(first: Message | None, second: Message | None) -> Message | None:
    """Return the product with more work."""

    def work(product: Message | None) -> int:
        return math.prod(product[name] for name in ("batch", "m", "n", "k")) if product else 0

    return second if work(second) > work(first) else first


def storage_of(tensor: Any) -> int:
    """Return a number for the memory of a tensor; 0 for one that has none of its own."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):
        return 0
