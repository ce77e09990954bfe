"""Precise products of fp32 on the tensor cores, from several products of less precise operands."""

from __future__ import annotations

from dataclasses import replace

from ....core import Parameter
from ...analysis.source import code, spells
from ...analysis.triton import OTHER_FLOATS, PRECISIONS, SPLIT_DOT, Launch, TritonKernel, dots_of, warps_for_two
from ..rule import Change, NotApplicableError, Rewrite, Rewritten, require, rule

START = "bf16x3-promoted"
"""The default is as exact as IEEE products: if the start is wrong, nothing else is searched."""
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


@rule("compute", "products", TritonKernel.read).because(
    "IEEE products of fp32 run on the vector units, at a fifteenth of the tensor cores' rate of bf16"
)
def split_precision(kernel: TritonKernel, change: Change) -> Rewritten:
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
    try:
        return _with_choice(kernel, Change(change.kernel, change.machine), START)
    except NotApplicableError as reason:
        try:
            return _with_another(kernel, change)
        except NotApplicableError as other:
            raise NotApplicableError(f"{reason}; {other}") from None


def precision_choice(start: str) -> Rewrite[TritonKernel]:
    """Return the rule that makes the precision a parameter, which begins at `start`, where it is none yet."""
    return replace(split_precision, change=lambda kernel, change: _with_choice(kernel, change, start))


def another_precision() -> Rewrite[TritonKernel]:
    """Return the rule that sets the precision to `START`, where it is a parameter and IEEE."""
    return replace(split_precision, change=_with_another)


def _with_another(kernel: TritonKernel, change: Change) -> Rewritten:
    launches = [item for item in kernel.launched_once() if dots_of(item.function)]
    choices = {launch.constant(dot.choice) for launch in launches for dot in dots_of(launch.function) if dot.choice}
    ieee = sorted(name for name in choices if name and change.kernel.config.get(name) == "ieee")
    require(ieee, "no parameter is an IEEE precision")
    for name in ieee:
        change.parameters.append(Parameter(name, change.kernel.declared_values.get(name, PRECISIONS), START))
    declared = all(START in parameter.values for parameter in change.parameters)
    require(declared, f"the file declares precisions without {START}")
    change.bind(dict.fromkeys(ieee, START))
    change.bind(warps_for_two(change.finished(kernel.module, "").kernel, launches))
    return change.finished(kernel.module, "computed the products in three of bf16, each step's sum added in fp32")


def _with_choice(kernel: TritonKernel, change: Change, start: str) -> Rewritten:
    require(not spells(change.module, OTHER_FLOATS), "the kernel has floats that are not fp32")
    change.require_free(SPLIT_DOT)
    constant = change.constant("PRECISION", PRECISIONS, start)

    def choose(launch: Launch, change: Change) -> None:
        dots = dots_of(launch.function)
        require(dots, "no product sums into an accumulator in a loop")
        require(all(dot.precision == "ieee" for dot in dots), "a product is not of IEEE precision")
        change.add_parameters(launch.function.node, constants=[constant])
        change.add_arguments(launch.node, {constant: constant})
        for dot in dots:
            arguments = f"{code(dot.left)}, {code(dot.right)}, {dot.accumulator}, {constant}"
            change.put_statements(dot.statement, f"{dot.accumulator} = {SPLIT_DOT}({arguments})\n")

    change.each(kernel.launched_once(), choose)
    change.helper(_HELPER.format(name=SPLIT_DOT))
    return change.rewritten(
        "made the precision of the products a parameter, with three bf16 or TF32 products for one of fp32"
    )
