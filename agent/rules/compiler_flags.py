"""Let the C++ compiler do more: relaxed mathematics, wide vectors."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ...core import Kernel, Parameter
from .rule import Machine, Rewritten, is_cpu_tilelang, tree_and_names, with_source
from .source import add_constant, expression

STRICT = "-fmath-errno"
NO_ERRNO = "-fno-math-errno -fno-trapping-math"
REORDERED = f"{NO_ERRNO} -fno-signed-zeros -fassociative-math -freciprocal-math"
VECTOR_MATH = f"{REORDERED} -D__FAST_MATH__"
"""With __FAST_MATH__ the C library's headers declare vector forms of expf, tanhf and the like."""


@dataclass(frozen=True)
class RelaxedMath:
    """Drop error codes and the order of sums, and use the C library's vector functions.

    Not -ffast-math: NaN and infinity keep their meaning, and denormals are not flushed in the whole process.
    Needs a call or a division to gain from, and a list of flags named COMPILE_FLAGS.
    """

    name = "relaxed-math"
    category = "compute"
    work = "streams"
    why = "with errno and strict order, g++ calls expf and sqrtf one element at a time"

    def apply(self, kernel: Kernel, machine: Machine) -> Rewritten | None:
        gains = any(f"T.{name}(" in kernel.source for name in ("exp", "sqrt", "tanh", "sigmoid", "erf", "log", "pow"))
        if not gains or "-fno-math-errno" in kernel.source or "-ffast-math" in kernel.source:
            return None
        values = (VECTOR_MATH, REORDERED, NO_ERRNO, STRICT)
        return _with_flag(kernel, "MATH_FLAGS", values, "let g++ vectorize mathematical functions")


@dataclass(frozen=True)
class WideVectors:
    """Use 512-bit registers, which g++ avoids by default; only some processors gain."""

    name = "wide-vectors"
    category = "compute"
    work = "products"
    why = "g++ limits itself to 256-bit registers even where 512-bit ones are there"

    def apply(self, kernel: Kernel, machine: Machine) -> Rewritten | None:
        if not machine.wide_vectors or "-mprefer-vector-width" in kernel.source or "-march" not in kernel.source:
            return None
        values = ("-mprefer-vector-width=512", "-mprefer-vector-width=256")
        return _with_flag(kernel, "VECTOR_FLAGS", values, "let g++ use 512-bit registers")


def _with_flag(kernel: Kernel, name: str, values: tuple[str, ...], did: str) -> Rewritten | None:
    if not is_cpu_tilelang(kernel):
        return None
    module, taken = tree_and_names(kernel)
    if name in taken or "COMPILE_FLAGS" not in kernel.constants:
        return None
    flags = m.Assign(targets=[m.AssignTarget(m.Name("COMPILE_FLAGS"))], value=m.List())

    class Append(cst.CSTTransformer):
        def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
            if not m.matches(original_node, flags):
                return updated_node
            assert isinstance(updated_node.value, cst.List)
            return updated_node.with_changes(
                value=updated_node.value.with_changes(
                    elements=[*updated_node.value.elements, cst.Element(expression(name))]
                )
            )

    position = next(i for i, s in enumerate(module.body) if m.findall(s, flags))
    module = module.visit(Append())
    constant = add_constant(cst.Module(body=[]), name, values[0]).body
    module = module.with_changes(body=[*module.body[:position], *constant, *module.body[position:]])
    return Rewritten(with_source(kernel, module), did, (Parameter(name, values, values[0]),))
