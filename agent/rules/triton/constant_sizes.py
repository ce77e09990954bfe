"""Sizes and strides as constants of the compilation, so that their divisors are known."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from ...analysis.applicability import require
from ...analysis.change import Change, Rewritten
from ...analysis.search import find_all
from ...analysis.source import expression
from ...analysis.triton import Function, Launch, TritonKernel, is_integer
from ..rule import rule


@rule(
    "constant-sizes",
    category="memory",
    work="both",
    why="loads are as wide as sizes and strides allow, and indices are divided by constants",
    reads=TritonKernel.read,
)
def constant_sizes(kernel: TritonKernel, change: Change) -> Rewritten:
    """Whole numbers that a launch passes become `tl.constexpr`: a kernel is compiled for each size that it meets.

    Of a plain number Triton knows whether it is 1 or a multiple of 16, and nothing else: rows of 8 * 2601 elements are
    aligned to 16 bytes, but are loaded 4 bytes at a time. Of a constant it knows all, also for the masks, and divides
    by it with a multiplication. Needs a function that is launched at one place, and parameters that it only reads, as
    values, whose argument is certainly whole: a number, a size or stride of a tensor, or what arithmetic makes of
    these.
    """
    change.each(kernel.launched_once(), _with_constants)
    return change.rewritten("compiled sizes and strides as constants")


def _with_constants(launch: Launch, change: Change) -> None:
    sizes = [item for item in launch.function.node.params.params if _is_size(launch, item.name.value)]
    require(sizes, "the launch passes no whole number that the function only reads")
    for parameter in sizes:
        change.edit(parameter, _constant)


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
    if any(find_all(item.target, m.Name(name)) for item in targets):  # type: ignore[attr-defined]
        return False
    if find_all(function.node.body, m.Attribute(value=m.Name(name))):
        return False
    parameter = next(item for item in function.node.params.params if item.name.value == name)
    return parameter.annotation is None and parameter.default is None and bool(function.uses(name))
