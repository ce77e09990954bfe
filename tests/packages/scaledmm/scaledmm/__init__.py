"""Products of quantized matrices."""

from .api import scaled_mm

__all__ = ["scaled_mm"]
