"""The attention problem and its scheduled kernel, which belong to no level of KernelBench."""

from __future__ import annotations

from pathlib import Path

from .problems import ATTENTION as PROBLEM

__all__ = ["KERNEL", "PROBLEM"]

KERNEL = Path(__file__).parent / "kernels" / "tilelang" / "attention" / "attention.py"
