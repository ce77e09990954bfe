"""Arguments of operators and launches as JSON, and back.

A tensor is `{"tensor": n}`, its number in the plan; dtypes, devices, layouts and memory formats are
`{"torch": "float32"}`; a float that JSON cannot represent is `{"float": "inf"}`; a tensor descriptor is
`{"descriptor": n, ...}` with its fields.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...core.launch_plan import TensorLayout


class UnplannableCallError(Exception):
    """Something that a plan cannot express."""


@dataclass
class Descriptor:
    """A tensor descriptor that the host made, as Triton's launcher reads it; sizes and strides count elements."""

    base: Any
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False


_DESCRIBED = ("shape", "strides", "block_shape", "padding", "round_f32_to_tf32")


def encode(value: Any, number_of: Callable[[Any], int]) -> Any:
    """Return the JSON form of an argument. Raises `UnplannableCallError` for an object without one."""
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
    if type(value).__name__ == "TensorDescriptor" and isinstance(getattr(value, "base", None), torch.Tensor):
        fields = {name: getattr(value, name) for name in _DESCRIBED if hasattr(value, name)}
        return {
            "descriptor": number_of(value.base),
            **{name: encode(field, number_of) for name, field in fields.items()},
        }
    raise UnplannableCallError(f"an argument of type {type(value).__qualname__}")


Tensors = Mapping[int, Any]
Argument = Callable[[Tensors], Any]


def argument(form: Any, device: str) -> Argument:
    """Return what gives the argument of a JSON form, from the plan's tensors by number.

    Raises `UnplannableCallError` for a form that `encode` never makes.
    """
    if not numbers_in(form):
        constant = _constant(form, device)
        return lambda tensors: constant
    if isinstance(form, list | tuple):
        items = [argument(item, device) for item in form]
        return lambda tensors: [item(tensors) for item in items]
    if "descriptor" in form:
        return _descriptor(form["descriptor"], {name: form[name] for name in _DESCRIBED if name in form})
    number = form["tensor"]
    return lambda tensors: tensors[number]


def _descriptor(number: int, fields: dict[str, Any]) -> Argument:
    """Return what describes a tensor of the plan; called the first time, it checks that no element is outside of it."""
    sizes = [fields.get(name) for name in ("shape", "strides", "block_shape")]
    if not all(
        isinstance(size, list | tuple) and all(type(item) is int and item >= 0 for item in size) for size in sizes
    ):
        raise UnplannableCallError("a tensor descriptor whose sizes are not numbers")
    checked = False

    def make(tensors: Tensors) -> Descriptor:
        nonlocal checked
        base = tensors[number]
        if not checked:
            last = sum((extent - 1) * stride for extent, stride in zip(*sizes[:2], strict=True))
            if base.storage_offset() + last >= base.untyped_storage().nbytes() // base.element_size():
                raise UnplannableCallError("a tensor descriptor that reaches beyond its tensor")
            checked = True
        return Descriptor(base, **fields)

    return make


def _constant(form: Any, device: str) -> Any:
    import torch

    if isinstance(form, list | tuple):
        return [_constant(item, device) for item in form]
    if not isinstance(form, Mapping):
        return form
    if len(form) == 1:
        ((key, content),) = form.items()
        if key == "float" and content in ("inf", "-inf", "nan"):
            return float(content)
        if key == "device":
            return torch.device("cpu" if content == "cpu" else device)
        found = getattr(torch, content, None) if key == "torch" and isinstance(content, str) else None
        if isinstance(found, torch.dtype | torch.layout | torch.memory_format):
            return found
    raise UnplannableCallError(f"the argument {form!r}")


def numbers_in(form: Any) -> list[int]:
    """Return the numbers of the tensors in a JSON form, in order."""
    if isinstance(form, list | tuple):
        return [number for item in form for number in numbers_in(item)]
    if isinstance(form, Mapping) and isinstance(form.get("tensor"), int) and len(form) == 1:
        return [form["tensor"]]
    if isinstance(form, Mapping) and isinstance(form.get("descriptor"), int):
        return [form["descriptor"]]
    return []


def layout_of(tensor: Any) -> TensorLayout:
    """Return a tensor's layout."""
    return TensorLayout(
        shape=tuple(tensor.shape),
        strides=tuple(tensor.stride()),
        dtype=str(tensor.dtype).removeprefix("torch."),
        offset=tensor.storage_offset(),
    )


def digest_of(tensor: Any) -> str:
    """Return a digest of a tensor's elements."""
    import torch

    plain = tensor.cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(plain.numpy().tobytes()).hexdigest()


def dtype_of(layout: TensorLayout) -> Any:
    """Return the dtype of a layout. Raises `UnplannableCallError` for a name that is none."""
    import torch

    found = getattr(torch, layout.dtype, None)
    if not isinstance(found, torch.dtype):
        raise UnplannableCallError(f"a tensor of the dtype {layout.dtype!r}")
    return found
