"""Arguments of operators and launches as JSON, and back.

A tensor is `{"tensor": n}`, its number in the plan; dtypes, devices, layouts and memory formats are
`{"torch": "float32"}`; a float that JSON cannot represent is `{"float": "inf"}`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ...core.launch_plan import TensorLayout

_TORCH_NAMES = ("dtype", "layout", "memory_format")


class UnplannableCall(Exception):
    """Something that a plan cannot express."""


def encode(value: Any, number_of: Callable[[Any], int]) -> Any:
    """Return the JSON form of an argument. Raises `UnplannableCall` for an object without one."""
    import torch

    if isinstance(value, torch.Tensor):
        return {"tensor": number_of(value)}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, list | tuple):
        return [encode(item, number_of) for item in value]
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return {"torch": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": value.type}
    raise UnplannableCall(f"an argument of type {type(value).__qualname__}")


def decode(value: Any, tensor: Callable[[int], Any], device: str) -> Any:
    """Return the argument that a JSON form stands for. Raises `UnplannableCall` for what `encode` never makes."""
    import torch

    if isinstance(value, list | tuple):
        return [decode(item, tensor, device) for item in value]
    if not isinstance(value, Mapping):
        return value
    ((key, content),) = value.items()
    if key == "tensor":
        return tensor(content)
    if key == "float":
        return float(content)
    if key == "device":
        return torch.device(device if content != "cpu" else "cpu")
    found = getattr(torch, content, None) if key == "torch" and isinstance(content, str) else None
    if not isinstance(found, torch.dtype | torch.layout | torch.memory_format):
        raise UnplannableCall(f"the argument {value!r}")
    return found


def numbers_in(value: Any) -> list[int]:
    """Return the numbers of the tensors in a JSON form, in order."""
    if isinstance(value, list | tuple):
        return [number for item in value for number in numbers_in(item)]
    if not isinstance(value, Mapping):
        return []
    if isinstance(value.get("tensor"), int):
        return [value["tensor"]]
    return [number for item in value.values() for number in numbers_in(item)]


def layout_of(tensor: Any) -> TensorLayout:
    """Return a tensor's layout."""
    return TensorLayout(
        shape=tuple(tensor.shape),
        strides=tuple(tensor.stride()),
        dtype=str(tensor.dtype).removeprefix("torch."),
        offset=tensor.storage_offset(),
    )
