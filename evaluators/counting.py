"""Counting what a reference does: operations, and bytes that must or do move."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .channel import Message
from .modules import outputs_of


def count(model: Any, inputs: Sequence[Any]) -> Message:
    """Run the model once under a dispatch mode that sees each operator.

    Matrix products and convolutions are counted by torch's own formulas (2 per multiply-add), every
    other operator as one operation per element that it reads or writes, whichever is more.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    totals = {"flops": 0.0, "matrix_flops": 0.0, "eager_bytes": 0.0}
    operators: list[str] = []
    product: Message | None = None

    def tensors(value: object) -> list[Any]:
        if isinstance(value, torch.Tensor):
            return [value]
        if isinstance(value, tuple | list):
            return [tensor for part in value for tensor in tensors(part)]
        return []

    class Counter(TorchDispatchMode):  # type: ignore[misc]  # torch is not type-checked
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal product
            kwargs = kwargs or {}
            result = func(*args, **kwargs)
            read = tensors([*args, *kwargs.values()])
            written = tensors(result)
            if func.is_view or not written:
                return result
            operators.append(func.overloadpacket.__name__)
            totals["eager_bytes"] += sum(_bytes(tensor) for tensor in [*read, *written])
            formula = flop_registry.get(func.overloadpacket)
            if formula is not None:
                flops = float(formula(*args, **kwargs, out_val=result))
                totals["matrix_flops"] += flops
                product = _larger(product, _product(func.overloadpacket.__name__, args))
            else:
                flops = float(max((math.prod(tensor.shape) for tensor in [*read, *written]), default=0))
            totals["flops"] += flops
            return result

    with Counter():
        outputs = outputs_of(model(*inputs))
    once = [*inputs, *model.parameters(), *model.buffers(), *outputs]
    totals["min_bytes"] = float(sum(_bytes(tensor) for tensor in tensors(once)))
    return {**totals, "operators": operators, "product": product}


def _product(operator: str, args: Sequence[Any]) -> Message | None:
    """The extents of a matrix product; None for another operator."""
    if operator not in ("mm", "bmm", "addmm", "baddbmm"):
        return None
    left, right = args[-2:] if operator in ("mm", "bmm") else args[1:3]
    m, k = left.shape[-2:]
    batch = left.shape[0] if left.dim() == 3 else 1
    return {"m": m, "n": right.shape[-1], "k": k, "batch": batch, "element_bytes": left.element_size()}


def _larger(one: Message | None, other: Message | None) -> Message | None:
    def work(product: Message | None) -> int:
        return math.prod(product[name] for name in ("batch", "m", "n", "k")) if product else 0

    return other if work(other) > work(one) else one


def _bytes(tensor: Any) -> int:
    size: int = tensor.numel() * tensor.element_size()
    return size
