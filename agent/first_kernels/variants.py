"""First kernels of torch.compile's code and of structures, each with the variants that are screened with it."""

from __future__ import annotations

from ...core import PythonKernel, TorchProblem
from ...core.generated_code import GeneratedCode
from ...core.operator_graph import OperatorGraph
from ..rules import Machine, NotApplicableError
from ..rules.triton.split_precision import another_precision
from .from_inductor import first_kernel
from .from_structures import replaceable, structured_kernel
from .unsupported_code import UnsupportedCodeError


def variants_of_code(
    problem: TorchProblem, code: GeneratedCode | str, library: bool = False
) -> list[PythonKernel] | str:
    """Return variants of the kernel that torch.compile's code gives, or why there is none.

    With `library` it may be calls of torch's library alone.
    """
    try:
        return code if isinstance(code, str) else _variants(first_kernel(problem, code, library))
    except UnsupportedCodeError as obstacle:
        return str(obstacle)


def variants_of_graph(problem: TorchProblem, graph: OperatorGraph | str) -> list[PythonKernel] | str:
    """Return variants of the kernel that structures give, or why there is none."""
    try:
        return graph if isinstance(graph, str) else _variants(structured_kernel(problem, graph))
    except UnsupportedCodeError as obstacle:
        return str(obstacle)


def variants_beside_library(problem: TorchProblem, graph: OperatorGraph | str) -> list[PythonKernel] | str:
    """Return kernels of structures around calls of torch's library, in place of one structure, another, or all it has.

    Or return why there is none.
    """
    if isinstance(graph, str):
        return graph
    found: dict[str, PythonKernel] = {}
    why = "torch's library has nothing of what structures compute"
    try:
        sets = replaceable(graph)
    except UnsupportedCodeError as obstacle:
        return str(obstacle)
    for names in sets:
        try:
            for kernel in _variants(structured_kernel(problem, graph, names)):
                found[kernel.source] = kernel
        except UnsupportedCodeError as obstacle:
            why = str(obstacle)
    plain = variants_of_graph(problem, graph)
    for kernel in plain if isinstance(plain, list) else ():
        found.pop(kernel.source, None)
    return list(found.values()) or why


def _variants(kernel: PythonKernel) -> list[PythonKernel]:
    """Return the kernel, and the same with its fp32 products emulated on tensor cores, if it has any.

    On an H200, IEEE products in Triton take twice the time of torch's library.
    """
    try:
        return [kernel, another_precision().apply(kernel, Machine(cores=1)).kernel]
    except NotApplicableError:
        return [kernel]
