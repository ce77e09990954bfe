"""fp32 products on tensor cores: operands split beforehand into two parts of bf16 or TF32, three products for one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import libcst as cst

from ....core import PythonKernel
from ...analysis.edit import Edit, edited, put_statements
from ...analysis.source import Statement, code, fresh, insert_before_definitions, statements, tree_and_names
from ...analysis.template import match
from ...analysis.tilelang_cuda.builders import (
    Builder,
    builders_of,
    parameters_text,
    removed,
    with_parameters,
    without_unused,
)
from ...analysis.tilelang_cuda.outer_product import Operand, OuterProduct, accumulator_of, product_of
from ...analysis.tilelang_cuda.space import redeclared
from ...analysis.tilelang_cuda.splitting import (
    CONSTANTS,
    HELPER,
    SPLITTER,
    TURNING_HELPER,
    TURNING_SPLITTER,
    constraints_of,
    parameters_of,
    three_products,
)
from ..rule import Machine, Rewritten, with_source

_START = {"m": 128, "n": 128, "threads": 256, "stages": 3}


@dataclass(frozen=True)
class SplitProducts:
    """Compute fp32 products as three of split operands: high with high, high with low, low with high.

    Two parts of bf16 keep 16 bits of an operand, two of TF32 all but two; the product of the low parts is below what
    either keeps. Needs a pipelined loop that only copies two tiles of fp32 matrices, perhaps turns one, and adds their
    outer products to a fragment; tile, threads and stages are constants of the file. Where PROMOTE is set, each step is
    summed apart and then added in fp32: tensor cores cut off their sums, which adds up over a long axis.
    (Henry, Tang, Heinecke: Leveraging the bfloat16 AI datatype for higher-precision computations, ARITH 2019.)
    """

    name = "split-products"
    category = "compute"
    work = "products"
    why = "fp32 products run on CUDA cores, at a fifteenth of the tensor cores' rate of bf16"

    parts = "bfloat16"
    """Of the operands, to begin with: which precision a tolerance needs is not known before it is measured."""

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with its products on tensor cores, or None where it has none on CUDA cores."""
        found = [one for builder in builders_of(kernel) if (one := _Rewriting.of(builder, kernel))]
        module, taken = tree_and_names(kernel)
        if len(found) != 1 or taken & {SPLITTER, TURNING_SPLITTER, *CONSTANTS} or "TARGET" not in kernel.config:
            return None
        (rewriting,) = found
        module = edited(module, rewriting.edits(taken))
        for helper in rewriting.helpers:
            module = insert_before_definitions(module, helper.lstrip())
        parameters = parameters_of(rewriting.names, _START, self.parts, "FullRow")
        constraints = constraints_of(rewriting.names)
        module = redeclared(kernel, module, parameters, constraints)
        return Rewritten(
            with_source(kernel, module),
            "split the operands into parts of bf16 or TF32 beforehand, and multiplied them on tensor cores",
            parameters,
            constraints,
        )


class SplitProductsTf32(SplitProducts):
    """The same, beginning with TF32: where a tolerance is too tight for bf16, the other is not worth a search."""

    name = "split-products-tf32"
    parts = "tfloat32"


@dataclass(frozen=True)
class _Rewriting:
    builder: Builder
    product: OuterProduct
    names: dict[str, str]
    """The constants of the file by role: the tile's sides m, n and k, threads and stages."""

    @classmethod
    def of(cls, builder: Builder, kernel: PythonKernel) -> _Rewriting | None:
        product = product_of(builder)
        if product is None or accumulator_of(builder, product) is None:
            return None
        names = {
            "m": product.rows,
            "n": product.columns,
            "k": product.step,
            "threads": builder.threads,
            "stages": product.stages,
        }
        if len(set(names.values())) < len(names):
            return None
        if not all(isinstance(kernel.config.get(name), int) for name in names.values()):
            return None
        for operand in (product.left, product.right):
            tensor = builder.tensors.get(operand.copy.tensor)
            if tensor is None or len(tensor.shape) != 2 or tensor.dtype != "float32":
                return None
            if builder.uses(tensor.name) != 1 or tensor.name == list(builder.tensors)[-1]:
                return None
            # Allocated, filled, and read once.
            if any(name not in builder.tiles or builder.uses(name) != 3 for name in operand.passed):
                return None
        if product.left.copy.tensor == product.right.copy.tensor:
            return None
        if len(builder.tensors) != len(builder.prim.params.params):
            return None
        return cls(builder, product, names)

    @property
    def helpers(self) -> list[str]:
        """The functions that split the operands."""
        turned = {self._turns(one) for one in (self.product.left, self.product.right)}
        return [text for text, is_turned in ((HELPER, False), (TURNING_HELPER, True)) if is_turned in turned]

    def _turns(self, operand: Operand) -> bool:
        """Return whether the last axis of an operand is not that of the sum, as tensor cores want it for TF32."""
        return operand.turned == (operand is self.product.left)

    def edits(self, taken: set[str]) -> dict[cst.CSTNode, Edit]:
        """Return the edits of the builder."""
        builder, product = self.builder, self.product
        operands = (product.left, product.right)
        parts = {one.copy.tensor: _pair(one.copy.tensor, taken) for one in operands}
        tiles = {one.copy.tile: _pair(f"{one.copy.tile.removesuffix('_shared')}_tile", taken) for one in operands}
        policy, part, dtype = (fresh(one, taken) for one in ("policy", "part", "parts"))
        edits: dict[cst.CSTNode, Edit] = {}
        for operand in operands:
            for name in operand.passed:
                _, shape, statement = builder.tiles[name]
                pair = tiles.get(name)
                sides = shape[::-1] if self._turns(operand) else shape
                text = "".join(f"{one} = T.alloc_shared(({', '.join(sides)}), {dtype})\n" for one in pair or ())
                edits[statement] = put_statements(text) if pair else removed
        accumulator = builder.tiles[product.acc][2]
        fragment = f'{part} = T.alloc_fragment(({product.rows}, {product.columns}), "float32")\n'
        edits[accumulator] = put_statements(fragment + code(accumulator).strip() + "\n")
        for statement in builder.statements:
            if _fixes_registers(statement, product.acc):
                edits[statement] = removed
        edits[product.loop] = lambda node: _with_body(node, self._steps(parts, tiles, part, policy))
        edits[builder.prim.params] = with_parameters(self._parameters(parts, dtype))
        edits[builder.result] = put_statements(self._result(parts, taken))
        first = f"{dtype}, {policy} = getattr(T, PARTS), T.GemmWarpPolicy[POLICY]\n"
        edits[builder.function] = lambda node: without_unused(_with_first(node, first))
        return edits

    def _parameters(self, parts: dict[str, list[str]], dtype: str) -> Iterable[str]:
        """Return the prim_func's new parameters."""
        turned = {one.copy.tensor for one in (self.product.left, self.product.right) if self._turns(one)}
        for name, text in parameters_text(self.builder).items():
            shape = self.builder.tensors[name].shape
            for one in parts.get(name, ()):
                yield f"{one}: T.Tensor(({', '.join(shape[::-1] if name in turned else shape)}), {dtype})"
            if name not in parts:
                yield text

    def _steps(self, parts: dict[str, list[str]], tiles: dict[str, list[str]], part: str, policy: str) -> str:
        """Return the loop's new body."""
        product, lines = self.product, []
        for operand in (product.left, product.right):
            copy = operand.copy
            for source, tile in zip(parts[copy.tensor], tiles[copy.tile], strict=True):
                index = copy.index[::-1] if self._turns(operand) else copy.index
                lines.append(f"T.copy({source}[{', '.join(index)}], {tile})")
        pairs = (tiles[product.left.copy.tile], tiles[product.right.copy.tile])
        sides = (product.rows, product.columns)
        return "\n".join(lines) + "\n" + three_products(*pairs, (product.acc, part), sides, policy)

    def _result(self, parts: dict[str, list[str]], taken: set[str]) -> str:
        """Return the statements that compile the kernels and return a function which calls them in turn."""
        builder = self.builder
        product, run = fresh("product", taken), fresh("run", taken)
        inputs = list(builder.tensors)[:-1]
        splits = {name: fresh(f"split_{name}", taken) for name in parts}
        lines = [f"{product} = tilelang.compile({builder.prim.name.value}, out_idx=[-1], target={builder.target})"]
        for operand in (self.product.left, self.product.right):
            name, splitter = operand.copy.tensor, TURNING_SPLITTER if self._turns(operand) else SPLITTER
            lines.append(f"{splits[name]} = {splitter}({', '.join(builder.tensors[name].shape)})")
        arguments = [f"*{splits[name]}({name})" if name in splits else name for name in inputs]
        lines += [
            f"def {run}({', '.join(inputs)}):",
            f"    return {product}({', '.join(arguments)})",
            f"return {run}",
        ]
        return "\n".join(lines) + "\n"


def _pair(name: str, taken: set[str]) -> list[str]:
    return [fresh(f"{name}_high", taken), fresh(f"{name}_low", taken)]


def _fixes_registers(statement: Statement, accumulator: str) -> bool:
    """Return whether a statement sets the accumulator's layout, or limits registers: both are the product's affair."""
    if match("T.annotate_min_blocks_per_sm(q_number)", statement):
        return True
    found = match("T.annotate_layout({q_name: q_layout})", statement)
    return bool(found and found["name"] == accumulator)


def _with_body(node: cst.CSTNode, text: str) -> cst.CSTNode:
    loop = cst.ensure_type(node, cst.For)
    return loop.with_changes(body=cst.IndentedBlock(body=statements(text)))


def _with_first(node: cst.CSTNode, text: str) -> cst.FunctionDef:
    function = cst.ensure_type(node, cst.FunctionDef)
    body = cst.ensure_type(function.body, cst.IndentedBlock)
    return function.with_changes(body=body.with_changes(body=[*statements(text), *body.body]))
