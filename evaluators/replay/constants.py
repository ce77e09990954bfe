"""Constants of a launch plan: tensors other than inputs and weights that exist before the call."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..workers.modules import unobserved
from .values import UnplannableCallError, digest_of

MAX_CONSTANT_BYTES = 1 << 28
"""Constants, such as tables computed when the model is constructed, together."""


class Kept(NamedTuple):
    """The memory of a tensor that exists before a call, and what it contains then."""

    tensor: Any
    contents: Any

    @classmethod
    def of(cls, tensor: Any) -> Kept:
        """Copy what a tensor's memory contains."""
        _require_small(tensor.untyped_storage().nbytes())
        return cls(tensor, tensor.untyped_storage().clone())

    def holds(self, view: Any) -> bool:
        """Return whether a tensor lies in this memory."""
        own = self.tensor.untyped_storage()  # alive, so no other tensor has its address
        return bool(view.untyped_storage().data_ptr() == own.data_ptr())

    def as_it_was(self, view: Any) -> Any:
        """Return what a tensor in this memory contained."""
        import torch

        empty = torch.empty(0, dtype=view.dtype, device=view.device)
        return empty.set_(self.contents, view.storage_offset(), view.shape, view.stride())


def digest_of_constant(tensor: Any) -> str:
    """Return the digest of a constant. Raises `UnplannableCallError` if it is too large."""
    _require_small(tensor.numel() * tensor.element_size())
    with unobserved():
        return digest_of(tensor)


def _require_small(size: int) -> None:
    if size > MAX_CONSTANT_BYTES:
        raise UnplannableCallError("a constant tensor of more than 256 MB; compute it in forward")
