"""Let the C++ compiler vectorize mathematical functions."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ....core import Parameter, PythonKernel
from ...analysis.search import find_all
from ...analysis.source import add_constant, is_cpu_tilelang, tree_and_names
from ..rule import Machine, Rewritten, with_source
from .licm import EXPENSIVE

STRICT = "-fmath-errno"
NO_ERRNO = "-fno-math-errno -fno-trapping-math"
REORDERED = f"{NO_ERRNO} -fno-signed-zeros -fassociative-math -freciprocal-math"
VECTOR_MATH = f"{REORDERED} -D__FAST_MATH__"
"""With __FAST_MATH__ the C library's headers declare vector forms of expf, tanhf and others."""


FLAGS = "MATH_FLAGS"
_COMPILE_FLAGS = m.Assign(targets=[m.AssignTarget(m.Name("COMPILE_FLAGS"))], value=m.List())


@dataclass(frozen=True)
class RelaxedMath:
    """Drop errno and the order of sums, and use the C library's vector functions.

    Unlike -ffast-math, NaN and infinity keep their meaning, and denormals are not flushed in the whole process.
    Needs a function called in a loop, and a list of flags named COMPILE_FLAGS.
    """

    name = "relaxed-math"
    category = "compute"
    work = "both"
    why = "with errno and strict order, g++ calls expf and sqrtf one element at a time"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel compiled with relaxed math, or None where it calls no function in a loop."""
        if not is_cpu_tilelang(kernel) or "-fno-math-errno" in kernel.source or "-ffast-math" in kernel.source:
            return None
        module, taken = tree_and_names(kernel)
        if FLAGS in taken or "COMPILE_FLAGS" not in kernel.constants or not _calls_in_loops(module):
            return None
        values = (VECTOR_MATH, REORDERED, NO_ERRNO, STRICT)
        position = next((i for i, s in enumerate(module.body) if find_all(s, _COMPILE_FLAGS)), None)
        if position is None:
            return None
        constant = add_constant(cst.Module(body=[]), FLAGS, values[0]).body
        module = module.visit(_Append())
        module = module.with_changes(body=[*module.body[:position], *constant, *module.body[position:]])
        return Rewritten(
            with_source(kernel, module),
            "let g++ vectorize mathematical functions",
            (Parameter(FLAGS, values, values[0]),),
        )


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
