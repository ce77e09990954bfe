"""The attention problem and its scheduled kernel, which belong to no level of KernelBench."""

from __future__ import annotations

from pathlib import Path

PROBLEM = Path(__file__).parent / "problems" / "attention" / "attention.py"
KERNEL = Path(__file__).parent / "kernels" / "tilelang" / "attention" / "attention.py"
