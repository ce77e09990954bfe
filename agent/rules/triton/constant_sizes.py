"""Sizes and strides as constants of the compilation, so that their divisors are known."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from ....core import PythonKernel
from ...analysis.edit import Edit, edited
from ...analysis.search import find_all
from ...analysis.source import expression
from ...analysis.triton.function import Function
from ...analysis.triton.integers import is_integer
from ...analysis.triton.kernel import Launch, TritonFile
from ..rule import Machine, Rewritten, with_source


class ConstantSizes:
    """Whole numbers that a launch passes become `tl.constexpr`: a kernel is compiled for each size that it meets.

    Of a plain number Triton knows whether it is 1 or a multiple of 16, and nothing else: rows of 8 * 2601 elements are
    aligned to 16 bytes, but are loaded 4 bytes at a time. Of a constant it knows all, also for the masks, and divides
    by it with a multiplication. Needs a function that is launched at one place, and parameters that it only reads, as
    values, whose argument is certainly whole: a number, a size or stride of a tensor, or what arithmetic makes of
    these.
    """

    name = "constant-sizes"
    category = "memory"
    work = "both"
    why = "loads are as wide as sizes and strides allow, and indices are divided by constants"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with constant sizes, or None where no launch passes any."""
        file = TritonFile.read(kernel)
        edits: dict[cst.CSTNode, Edit] = {}
        for launch in file.launched_once() if file else ():
            found = {name for name in launch.function.parameters if _is_size(launch, name)}
            for parameter in launch.function.node.params.params:
                if parameter.name.value in found:
                    edits[parameter] = _constant
        if file is None or not edits:
            return None
        return Rewritten(with_source(kernel, edited(file.module, edits)), "compiled sizes and strides as constants")


def _constant(node: cst.CSTNode) -> cst.CSTNode:
    return cst.ensure_type(node, cst.Param).with_changes(annotation=cst.Annotation(expression("tl.constexpr")))


def _is_size(launch: Launch, name: str) -> bool:
    function, value = launch.function, launch.arguments.get(name)
    if value is None or name in function.constexprs or not _is_only_read(function, name):
        return False
    return is_integer(launch.host, value)


def _is_only_read(function: Function, name: str) -> bool:
    """Return whether a parameter is used, as a value alone: a constant has no methods and cannot be assigned."""
    targets = find_all(function.node, m.AssignTarget() | m.AnnAssign() | m.AugAssign() | m.For() | m.NamedExpr())
    if any(find_all(one.target, m.Name(name)) for one in targets):  # type: ignore[attr-defined]
        return False
    if find_all(function.node.body, m.Attribute(value=m.Name(name))):
        return False
    parameter = next(one for one in function.node.params.params if one.name.value == name)
    return parameter.annotation is None and parameter.default is None and bool(function.uses(name))
