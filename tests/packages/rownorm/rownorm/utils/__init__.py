"""What the operators share."""

from .guards import contiguous_inputs

__all__ = ["contiguous_inputs"]
