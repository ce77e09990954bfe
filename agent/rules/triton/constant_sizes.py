"""Sizes and strides as constants of the compilation, so that their divisors are known."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from ...analysis.source import expression
from ...analysis.tree import find_all, named
from ...analysis.triton import Function, Launch, TritonKernel, is_integer
from ..rule import Change, Rewritten, require, rule


@rule("memory", "both", TritonKernel.read).because(
    "loads are as wide as sizes and strides allow, and indices are divided by constants"
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
    function, given = launch.function, launch.arguments
    plain = [item for item in function.node.params.params if item.name.value in given.keys() - function.constexprs]
    plain = [item for item in plain if _is_only_read(function, item)]
    sizes = [item for item in plain if is_integer(launch.host, given[item.name.value])]
    require(sizes, "the launch passes no whole number that the function only reads")
    for parameter in sizes:
        change.edit(parameter, lambda old: old.with_changes(annotation=cst.Annotation(expression("tl.constexpr"))))


def _is_only_read(function: Function, parameter: cst.Param) -> bool:
    """Return whether a parameter is used, as a value alone: a constant has no methods and cannot be assigned."""
    name = parameter.name.value
    kinds = m.AssignTarget() | m.AnnAssign() | m.AugAssign() | m.For() | m.NamedExpr()
    assigned = any(named(assignment.target, name) for assignment in find_all(function.node, kinds))
    has_methods = find_all(function.node.body, cst.Attribute, m.Attribute(value=m.Name(name)))
    plain = parameter.annotation is None and parameter.default is None
    return plain and not assigned and not has_methods and bool(function.uses(name))
