"""The torch operators that a plan may contain."""

from __future__ import annotations

import re
from typing import Any

from .values import UnplannableCall

BROUGHT = ("aten", "prims")
"""Namespaces of torch's own operators."""
_NAME = re.compile(rf"({'|'.join(BROUGHT)})\.(\w+)\.(\w+)")
_RANDOM = re.compile(
    r"(rand|bernoulli|dropout|multinomial|normal_?$|uniform|exponential|geometric|cauchy|poisson|random)"
)
_NEVER = frozenset({"set_", "resize_", "from_file", "record_stream", "_local_scalar_dense", "item", "equal"})


def allowed_operator(name: str) -> Any:
    """Return torch's operator of this name. Raises `UnplannableCall` for one that a plan may not contain.

    How much of the work torch may do is another question: `guards.torch_share` answers it.
    """
    import torch

    match = _NAME.fullmatch(name)
    if match is None:
        raise UnplannableCall(f"the operator {name}, which torch does not bring")
    space, packet, overload = match.groups()
    if packet in _NEVER:
        raise UnplannableCall(f"the operator {name}")
    if _RANDOM.match(packet.lstrip("_").removeprefix("native_")):
        raise UnplannableCall(f"the operator {name}, which draws random numbers")
    found = getattr(getattr(getattr(torch.ops, space), packet, None), overload, None)
    if found is None:
        raise UnplannableCall(f"the operator {name}, which this torch does not have")
    return found


def changes_layout(name: str) -> bool:
    """Return whether an operator changes the shape or the strides of its argument itself, as `aten.t_.default` does."""
    import torch

    return torch.Tag.inplace_view in allowed_operator(name).tags
