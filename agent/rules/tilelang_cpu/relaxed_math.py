"""Let the C++ compiler vectorize mathematical functions."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from ....core import Parameter
from ...analysis.applicability import need, require
from ...analysis.change import Change, Rewritten
from ...analysis.search import find_all
from ...analysis.source import add_constant
from ...analysis.tilelang import EXPENSIVE, cpu_tilelang
from ..rule import rule

STRICT = "-fmath-errno"
NO_ERRNO = "-fno-math-errno -fno-trapping-math"
REORDERED = f"{NO_ERRNO} -fno-signed-zeros -fassociative-math -freciprocal-math"
VECTOR_MATH = f"{REORDERED} -D__FAST_MATH__"
"""With __FAST_MATH__ the C library's headers declare vector forms of expf, tanhf and others."""


FLAGS = "MATH_FLAGS"
_COMPILE_FLAGS = m.Assign(targets=[m.AssignTarget(m.Name("COMPILE_FLAGS"))], value=m.List())


@rule(
    "relaxed-math",
    category="compute",
    work="both",
    why="with errno and strict order, g++ calls expf and sqrtf one element at a time",
    reads=cpu_tilelang,
)
def relaxed_math(module: cst.Module, change: Change) -> Rewritten:
    """Drop errno and the order of sums, and use the C library's vector functions.

    Unlike -ffast-math, NaN and infinity keep their meaning, and denormals are not flushed in the whole process.
    Needs a function called in a loop, and a list of flags named COMPILE_FLAGS.
    """
    source = change.kernel.source
    require("-fno-math-errno" not in source and "-ffast-math" not in source, "the file relaxes math already")
    change.require_free(FLAGS)
    require(_calls_in_loops(module), "no loop calls a mathematical function")
    position = next((i for i, s in enumerate(module.body) if find_all(s, _COMPILE_FLAGS)), None)
    position = need(position, "the file has no list COMPILE_FLAGS")
    values = (VECTOR_MATH, REORDERED, NO_ERRNO, STRICT)
    constant = add_constant(cst.Module(body=[]), FLAGS, values[0]).body
    module = cst.ensure_type(module.visit(_Append()), cst.Module)
    change.module = module.with_changes(body=[*module.body[:position], *constant, *module.body[position:]])
    change.declare(Parameter(FLAGS, values, values[0]))
    return change.rewritten("let g++ vectorize mathematical functions")


def _calls_in_loops(module: cst.Module) -> bool:
    """Return whether some loop calls a mathematical function; a call per block would not matter."""
    function = m.Attribute(m.Name("T"), m.OneOf(*(m.Name(name) for name in EXPENSIVE)))
    return any(find_all(loop, m.Call(func=function)) for loop in find_all(module, m.For()))


class _Append(cst.CSTTransformer):
    """Adds the constant to the list of flags."""

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        if not m.matches(original_node, _COMPILE_FLAGS):
            return updated_node
        assert isinstance(updated_node.value, cst.List)
        elements = [*updated_node.value.elements, cst.Element(cst.Name(FLAGS))]
        return updated_node.with_changes(value=updated_node.value.with_changes(elements=elements))
