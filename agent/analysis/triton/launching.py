"""Changes of a launch that rules share: another function, other arguments, a choice between two launches."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import libcst as cst
import libcst.matchers as m

from ..edit import appended, keyword_argument
from ..search import find_all
from ..source import code, expression
from .kernel import Launch, TritonKernel


def relaunched(launch: Launch, name: str, values: Mapping[str, str]) -> cst.Call:
    """Return the call with another function's name and with these arguments, given or new, by parameter or option."""
    call = launch.node
    left = dict(values)
    arguments = []
    for position, arg in enumerate(call.args):
        names = launch.function.parameters
        keyword = arg.keyword.value if arg.keyword else names[position] if position < len(names) else ""
        if keyword in left:
            arg = arg.with_changes(value=expression(left.pop(keyword)))
        arguments.append(arg)
    arguments = appended(arguments, [keyword_argument(*item) for item in left.items()])
    subscript = cst.ensure_type(call.func, cst.Subscript)
    return call.with_changes(func=subscript.with_changes(value=cst.Name(name)), args=arguments)


def regridded(call: cst.Call, grid: str) -> cst.Call:
    """Return a launch with another grid, a tuple's text."""
    subscript = cst.ensure_type(call.func, cst.Subscript)
    index = cst.SubscriptElement(cst.Index(expression(grid)))
    return call.with_changes(func=subscript.with_changes(slice=[index]))


def choice(condition: str, then: cst.Call, otherwise: cst.Call) -> str:
    """Return the text of `if condition: then else: otherwise`."""
    first, second = (textwrap.indent(code(call), "    ") for call in (then, otherwise))
    return f"if {condition}:\n{first}\nelse:\n{second}\n"


def texts(launch: Launch) -> dict[str, str]:
    """Return the arguments of a launch as text, by parameter."""
    return {name: code(value) for name, value in launch.arguments.items()}


def uses_only_here(kernel: TritonKernel, launch: Launch, parameter: str) -> bool:
    """Return whether nothing but launches' arguments depends on what a parameter gets: no grid, no other argument."""
    value = launch.arguments.get(parameter)
    if isinstance(value, cst.Integer):
        return True
    constant = launch.constant(parameter)
    if constant is None:
        return False
    given = [arg for item in kernel.launches for arg in item.node.args]
    plain = sum(isinstance(arg.value, cst.Name) and arg.value.value == constant for arg in given)
    keywords = sum(arg.keyword is not None and arg.keyword.value == constant for arg in given)
    classes = [statement for statement in kernel.module.body if isinstance(statement, cst.ClassDef)]
    return sum(len(find_all(cls, m.Name(constant))) for cls in classes) == plain + keywords
