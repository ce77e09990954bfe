"""Answers questions about kernels: what bounds one (`bottleneck`), and what its source says.

What rules ask of a source is in `triton/`, `tilelang_cuda/` and `tilelang_cpu/`, one package for each language and
target; the other modules are for all of them.
"""

from .bottleneck import Analysis, Category, analyse, bottleneck, performance_category

__all__ = ["Analysis", "Category", "analyse", "bottleneck", "performance_category"]
