"""Results of a call whose operators round another way, as those of a kernel that computes several of them at once.

An attention over large numbers takes one value per row, and rounding decides which where two scores are nearly equal.
No change of the inputs shows that in a row of one large element, which it changes as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..profiling.operator_kinds import COMPUTE, classify

STEPS = 1.0
"""Range of the change in steps of rounding: half a step up or down, as another rounding gives. With four, keys of six
bits passed."""


def rounded_elsewhere(call: Callable[[], list[Any]], draw: int) -> list[Any]:
    """Return what `call` returns with each result of 16 bits changed within `STEPS` of its rounding."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    generators: dict[Any, Any] = {}

    def changed(item: Any) -> Any:
        if not (isinstance(item, torch.Tensor) and item.is_floating_point() and item.element_size() == 2):
            return item
        generator = generators.setdefault(item.device, torch.Generator(item.device).manual_seed(draw))
        noise = torch.rand(item.shape, generator=generator, device=item.device).sub_(0.5)
        return (item.float() * (1 + STEPS * torch.finfo(item.dtype).eps * noise)).to(item.dtype)

    class OtherRounding(TorchDispatchMode):  # type: ignore[misc, no-any-unimported, unused-ignore]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            tags = {tag.name for tag in func.tags}
            kind, _ = classify(func.overloadpacket.__name__, func.namespace, tags, func.is_view)
            if kind != COMPUTE or func._schema.is_mutable:
                return result
            if isinstance(result, tuple | list):
                return type(result)(map(changed, result))
            return changed(result)

    with torch.no_grad(), OtherRounding():
        return call()
