"""Transposed convolutions as products on tensor cores: packed channels-last, so that every operand is one copy."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

import libcst as cst

from ....core import PythonKernel
from ..rule import Machine, Rewritten, tree_and_names, with_source
from ..source import fresh, insert_before_definitions
from ..triton.edit import Edit, edited, put_statements
from .convolution_text import (
    CONVOLUTION,
    PRODUCT_C,
    PRODUCT_K,
    PRODUCT_P,
    PRODUCT_STAGES,
    PRODUCT_THREADS,
    SHIFT,
    TEXT,
)
from .convolutions import Convolution, convolution_of
from .file import Builder, builders_of, parameters_text, removed, with_parameters, without_unused
from .space import redeclared
from .splitting import CONSTANTS, HELPER, SPLITTER, constraints_of, parameters_of, three_products
from .template import match

_NAMES = {"m": PRODUCT_C, "n": PRODUCT_P, "k": PRODUCT_K, "threads": PRODUCT_THREADS, "stages": PRODUCT_STAGES}
_START = {"m": 64, "n": 256, "threads": 256, "stages": 2}


@dataclass(frozen=True)
class PackedConvolution:
    """Compute a transposed convolution of stride 1 in kernels of its own, and read its sums where they were computed.

    A kernel packs the input, split into two parts as in split-products, into rows of channels; a row is a position of
    the result, with zeros around the input. What a tap needs for consecutive positions are then consecutive rows, so a
    tile is one copy without a mask, and the convolution is one product over taps and channels.
    Needs the loop in one of two forms, which convolutions.py shows: a tile of positions, or windows that are pooled.
    """

    name = "packed-convolution"
    category = "compute"
    work = "products"
    why = "the sums run on CUDA cores, and every operand is gathered under a mask"

    parts = "bfloat16"
    """Of the operands, to begin with: which precision a tolerance needs is not known before it is measured."""

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with its convolution on tensor cores, or None where it has none of these forms."""
        found = [(builder, one) for builder in builders_of(kernel) if (one := convolution_of(builder))]
        module, taken = tree_and_names(kernel)
        added = {SPLITTER, CONVOLUTION, "build_pack", *CONSTANTS, *_NAMES.values()}
        if len(found) != 1 or taken & added or "TARGET" not in kernel.config:
            return None
        builder, convolution = found[0]
        module = edited(module, _edits(builder, convolution, taken))
        module = insert_before_definitions(module, _text().lstrip())
        module = insert_before_definitions(module, HELPER.lstrip())
        parameters, constraints = parameters_of(_NAMES, _START, self.parts, "FullCol"), constraints_of(_NAMES)
        return Rewritten(
            with_source(kernel, redeclared(kernel, module, parameters, constraints)),
            "packed the operands of the convolution channels-last, split, and multiplied them on tensor cores",
            parameters,
            constraints,
        )


class PackedConvolutionTf32(PackedConvolution):
    """The same, beginning with TF32: where a tolerance is too tight for bf16, the other is not worth a search."""

    name = "packed-convolution-tf32"
    parts = "tfloat32"


def _text() -> str:
    tiles = (["w_tile_high", "w_tile_low"], ["x_tile_high", "x_tile_low"])
    sides = (PRODUCT_C, PRODUCT_P)
    products = three_products(*tiles, ("acc", "part"), sides, "policy")
    return TEXT.replace("{shift}", SHIFT).replace("{products}", textwrap.indent(products.rstrip(), " " * 16))


def _edits(builder: Builder, convolution: Convolution, taken: set[str]) -> dict[cst.CSTNode, Edit]:
    parts = convolution.parts
    x, weight = parts["x"], parts["weight"]
    result, compiled, conv, run = (fresh(one, taken) for one in ("sums", "epilogue", "convolution", "run"))
    size = "({H} + {kernel} - 1) * ({W} + {kernel} - 1)".format(**parts) if convolution.planes else parts["size"]
    edits: dict[cst.CSTNode, Edit] = {builder.tiles[name][2]: removed for name in convolution.gone}
    for statement in builder.statements:
        if match("T.clear(q_acc)", statement, {"acc": parts["acc"]}):
            edits[statement] = removed
    edits[convolution.loop] = put_statements(convolution.sums.replace("result[", f"{result}["))
    texts = parameters_text(builder)
    texts[x] = f'{result}: T.Tensor(({parts["B"]}, {parts["OC"]}, {size}), "float32")'
    del texts[weight]
    edits[builder.prim.params] = with_parameters(texts.values())
    inputs = list(builder.tensors)[:-1]
    sizes = ", ".join(parts[one] for one in ("B", "IC", "OC", "D", "H", "W"))
    sums = f"{conv}({x}, {convolution.weight.replace('weight', weight, 1)})"
    arguments = ", ".join(sums if name == x else name for name in inputs if name != weight)
    edits[builder.result] = put_statements(
        f"{compiled} = tilelang.compile({builder.prim.name.value}, out_idx=[-1], target={builder.target})\n"
        f"{conv} = {CONVOLUTION}({sizes}, {'1' if convolution.planes else parts['kernel']}, {parts['kernel']})\n"
        f"def {run}({', '.join(inputs)}):\n"
        f"    return {compiled}({arguments})\n"
        f"return {run}\n"
    )
    edits[builder.function] = lambda node: without_unused(cst.ensure_type(node, cst.FunctionDef))
    return edits
