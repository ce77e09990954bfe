"""The shipped problems, kernels and worked examples, and how a name finds one."""

from .examples import ExampleFolder, list_examples, load_examples
from .kernels import KernelFile, find_kernel, list_kernel_files, list_kernels, list_operator_kernels
from .problems import ProblemFile, find_problem, list_operators, list_problems

__all__ = [
    "ExampleFolder",
    "KernelFile",
    "ProblemFile",
    "find_kernel",
    "find_problem",
    "list_examples",
    "list_kernel_files",
    "list_kernels",
    "list_operator_kernels",
    "list_operators",
    "list_problems",
    "load_examples",
]
