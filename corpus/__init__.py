"""The problems and kernels that are shipped, and how a name finds one."""

from .kernels import BACKENDS, KernelFile, find_kernel, list_kernels
from .problems import ProblemFile, find_problem, list_problems

__all__ = [
    "BACKENDS",
    "KernelFile",
    "ProblemFile",
    "find_kernel",
    "find_problem",
    "list_kernels",
    "list_problems",
]
