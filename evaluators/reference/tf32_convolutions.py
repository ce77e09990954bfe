"""Results of the reference with its convolutions in TF32, whatever algorithm the library would choose.

PyTorch's defaults let cuDNN compute a convolution of fp32 in TF32. Whether it does depends on shape and layout: on an
H100 convolutions of 3 and of 8 channels are in fp32 as KernelBench calls them, and in TF32 with the channels side by
side, which is the layout that torch.compile chooses. So the error that the defaults allow is computed instead: in fp32,
of operands that are rounded to the ten bits of the mantissa that TF32 keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

_CONVOLUTIONS = frozenset(
    ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution"]
)
"""The names of torch's functions, whose first two arguments are multiplied."""
_OPERANDS = ("input", "weight")
_DROPPED_BITS = 13


def in_tf32(call: Callable[[], list[Any]]) -> list[Any] | None:
    """Return what `call` returns with the operands of convolutions rounded; None where it has none of fp32.

    Those of scripted modules are not seen.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    class Rounding(TorchFunctionMode):  # type: ignore[misc]
        found = False

        def __torch_function__(
            self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            named = kwargs or {}
            if getattr(function, "__name__", "") in _CONVOLUTIONS:
                operands = [*args[:2], *(named[name] for name in _OPERANDS if name in named)]
                self.found = self.found or any(operand.dtype == torch.float32 for operand in operands)
                args = [*map(rounded, args[:2]), *args[2:]]
                named = {name: rounded(value) if name in _OPERANDS else value for name, value in named.items()}
            return function(*args, **named)

    with Rounding() as mode:
        result = call()
    return result if mode.found else None


def rounded(value: Any) -> Any:
    """Return a tensor of fp32 rounded to the nearest value of TF32, anything else as it is.

    NaN may become another number: the errors that are learned leave these elements out.
    """
    import torch

    if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
        return value
    copy = value.detach().clone()
    bits = copy.view(torch.int32)
    bits += 1 << (_DROPPED_BITS - 1)
    bits &= -(1 << _DROPPED_BITS)
    return copy
