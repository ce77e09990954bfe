"""Normalizations of rows."""

from .ops.rms_norm import rms_norm

__all__ = ["rms_norm"]
