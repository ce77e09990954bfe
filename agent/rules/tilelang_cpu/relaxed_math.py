"""Let the C++ compiler vectorize mathematical functions."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from ....core import Parameter
from ...analysis.source import spells
from ...analysis.tilelang import EXPENSIVE, cpu_tilelang
from ...analysis.tree import calls_in, contains, find_all
from ..rule import Change, Rewritten, require, rule

STRICT = "-fmath-errno"
NO_ERRNO = "-fno-math-errno -fno-trapping-math"
REORDERED = f"{NO_ERRNO} -fno-signed-zeros -fassociative-math -freciprocal-math"
VECTOR_MATH = f"{REORDERED} -D__FAST_MATH__"
"""With __FAST_MATH__ the C library's headers declare vector forms of expf, tanhf and others."""
FLAGS = "MATH_FLAGS"
_COMPILE_FLAGS = m.Assign(targets=[m.AssignTarget(m.Name("COMPILE_FLAGS"))], value=m.List())


@rule("compute", "both", cpu_tilelang).because(
    "with errno and strict order, g++ calls expf and sqrtf one element at a time"
)
def relaxed_math(module: cst.Module, change: Change) -> Rewritten:
    """Drop errno and the order of sums, and use the C library's vector functions.

    Unlike -ffast-math, NaN and infinity keep their meaning, and denormals are not flushed in the whole process.
    Needs a function called in a loop, and a list of flags named COMPILE_FLAGS.
    """
    require(not spells(module, ".*(-fno-math-errno|-ffast-math).*"), "the file relaxes math already")
    change.require_free(FLAGS)
    # A call per block would not matter.
    called = any(calls_in(loop, *EXPENSIVE) for loop in find_all(module, cst.For))
    require(called, "no loop calls a mathematical function")
    flags = find_all(module, cst.Assign, _COMPILE_FLAGS)
    require(flags, "the file has no list COMPILE_FLAGS")
    values = (VECTOR_MATH, REORDERED, NO_ERRNO, STRICT)
    for assign in flags:
        change.edit(assign.value, lambda old: old.with_changes(elements=[*old.elements, cst.Element(cst.Name(FLAGS))]))
    first = next(statement for statement in module.body if contains(statement, flags[0]))
    change.before(first, f"\n{FLAGS} = {values[0]!r}\n")
    change.declare(Parameter(FLAGS, values, values[0]))
    return change.rewritten("let g++ vectorize mathematical functions")
