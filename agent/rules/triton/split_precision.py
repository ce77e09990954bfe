"""Precise products of fp32 on the tensor cores, from several products of less precise operands."""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst

from ....core import Config, Parameter, PythonKernel
from ...analysis.edit import Edit, declaring, edited, put_statements, with_arguments, with_parameters
from ...analysis.source import add_constant, code, fresh, insert_before_definitions
from ...analysis.triton.dots import SPLIT_DOT, Dot, dots_of
from ...analysis.triton.function import Function
from ...analysis.triton.kernel import TritonFile
from ...analysis.triton.tiles import warps_for_two
from ..rule import Machine, Rewritten, with_source

PRECISIONS = ("ieee", "tf32x3", "bf16x3", "bf16x3-promoted")
START = "bf16x3-promoted"
"""As exact as IEEE products: the start must be correct, or nothing else is searched."""
OTHER_FLOATS = re.compile(r"\b(b?float16|half|float64|float8\w*|fp8\w*)\b")
"""What is no fp32: a split of it would gain nothing."""
_HELPER = """
@triton.jit
def {name}(a, b, acc, PRECISION: tl.constexpr):
    if PRECISION == "ieee" or PRECISION == "tf32x3":
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    else:
        # a = hi + lo, each in bf16; the product of both low parts, about 2^-18 of the whole, is left out.
        a_hi = a.to(tl.bfloat16)
        b_hi = b.to(tl.bfloat16)
        a_lo = (a - a_hi.to(tl.float32)).to(tl.bfloat16)
        b_lo = (b - b_hi.to(tl.float32)).to(tl.bfloat16)
        if PRECISION == "bf16x3":
            acc = tl.dot(a_lo, b_hi, acc)
            acc = tl.dot(a_hi, b_lo, acc)
            acc = tl.dot(a_hi, b_hi, acc)
        else:
            # Tensor cores cut sums off where fp32 rounds, so the sum over a step is added outside of them.
            part = tl.dot(a_lo, b_hi)
            part = tl.dot(a_hi, b_lo, part)
            acc += tl.dot(a_hi, b_hi, part)
    return acc
"""


@dataclass(frozen=True)
class SplitPrecision:
    """`tl.dot` of fp32 with IEEE precision becomes one of a choice of precisions.

    As it is, three TF32 products, or three bf16 products of operands that are split into high and low parts in the
    loop. On an H200 sums over 4096 terms and more on tensor cores had an error of 1.5e-5, torch's of 1.1e-6; promoted,
    the sum over each step is added in fp32, as Triton itself does with three TF32 products.

    Needs a kernel without other float types and a function that is launched at one place, whose products sum into
    an accumulator in a loop with `input_precision="ieee"` or without TF32. Triton's own default, TF32, is left alone.
    Where the precision is a parameter already and IEEE, another one is chosen; first kernels begin with that themselves
    where a quick check allows it.
    (Henry, Tang, Heinecke: Leveraging the bfloat16 AI datatype for higher-precision computations, ARITH 2019.)
    """

    name = "split-precision"
    category = "compute"
    work = "products"
    why = "IEEE products of fp32 run on the vector units, at a fifteenth of the tensor cores' rate of bf16"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with the precision as a parameter, or None where no product of fp32 is precise."""
        return with_precisions(kernel, START) or with_another_precision(kernel)


def with_another_precision(kernel: PythonKernel) -> Rewritten | None:
    """Return the kernel with the precision at which to start; None where none is a parameter, or it is not IEEE."""
    file = TritonFile.read(kernel)
    launches = [one for one in (file.launched_once() if file else ()) if dots_of(one.function)]
    choices = {launch.constant(dot.choice) for launch in launches for dot in dots_of(launch.function) if dot.choice}
    ieee = sorted(name for name in choices if name and kernel.config.get(name) == "ieee")
    parameters = [Parameter(one, kernel.declared_values.get(one, PRECISIONS), START) for one in ieee]
    if not parameters or any(START not in one.values for one in parameters):
        return None
    chosen = kernel.bind(Config({one.name: START for one in parameters}))
    chosen = chosen.bind(warps_for_two(chosen, launches))
    return Rewritten(chosen, "computed the products in three of bf16, each step's sum added in fp32", (*parameters,))


def with_precisions(kernel: PythonKernel, start: str) -> Rewritten | None:
    """Return the kernel with the precision of its products as a parameter; None where none of fp32 is precise."""
    file = TritonFile.read(kernel)
    if file is None or OTHER_FLOATS.search(kernel.source):
        return None
    found = {launch: precise_dots(launch.function) for launch in file.launched_once()}
    if not any(found.values()):
        return None
    if SPLIT_DOT in file.taken:
        return None
    constant, helper = fresh("PRECISION", file.taken), SPLIT_DOT
    edits: dict[cst.CSTNode, Edit] = {}
    for launch, dots in found.items():
        if not dots:
            continue
        edits[launch.function.node] = with_parameters([constant])
        edits[launch.node] = with_arguments({constant: constant})
        for dot in dots:
            arguments = f"{code(dot.left)}, {code(dot.right)}, {dot.accumulator}, {constant}"
            edits[dot.statement] = put_statements(f"{dot.accumulator} = {helper}({arguments})\n")
    module = edited(file.module, edits)
    module = add_constant(module, constant, start)
    module = insert_before_definitions(module, _HELPER.format(name=helper))
    parameter = Parameter(constant, PRECISIONS, start)
    return Rewritten(
        with_source(kernel, declaring(kernel, module, [parameter])),
        "made the precision of the products a parameter, with three bf16 or TF32 products for one of fp32",
        (parameter,),
    )


def precise_dots(function: Function) -> list[Dot]:
    """Return the products with IEEE precision; none where the function has any of another precision."""
    dots = dots_of(function)
    return dots if dots and all(dot.precision == "ieee" for dot in dots) else []
