"""fp32 products on tensor cores: operands split beforehand into two parts of bf16 or TF32, three products for one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import libcst as cst

from ....core import PythonKernel
from ...analysis.source import code, fresh, statements
from ...analysis.template import matches
from ...analysis.tilelang_cuda.builders import (
    Builder,
    Operand,
    OuterProduct,
    builders_of,
    product_of,
    the_one,
    without_unused,
)
from ...analysis.tilelang_cuda.splitting import NAMES, SPLITTERS, constraints_of, parameters_of, three_products
from ...analysis.tree import with_block
from ..rule import Change, Rewrite, Rewritten, need, require, rule

_START = {"m": 128, "n": 128, "threads": 256, "stages": 3}


def _splitting(name: str, parts: str) -> Rewrite[list[Builder]]:
    """Return the rule that begins with these parts; which precision a tolerance needs is not known before.

    Compute fp32 products as three of split operands: high with high, high with low, low with high. Two parts of bf16
    keep 16 bits of an operand, two of TF32 all but two; the product of the low parts is below what either keeps. Needs
    a pipelined loop that only copies two tiles of fp32 matrices, perhaps turns one, and adds their outer products to a
    fragment; tile, threads and stages are constants of the file. Where PROMOTE is set, each step is summed apart and
    then added in fp32: tensor cores cut off their sums, which adds up over a long axis.
    (Henry, Tang, Heinecke: Leveraging the bfloat16 AI datatype for higher-precision computations, ARITH 2019.)
    """

    @rule("compute", "products", builders_of, name).because(
        "fp32 products run on CUDA cores, at a fifteenth of the tensor cores' rate of bf16"
    )
    def split(builders: list[Builder], change: Change) -> Rewritten:
        change.require_free(*NAMES)
        require("TARGET" in change.kernel.config, "the file has no constant TARGET")
        rewriting = the_one(builders, lambda builder: _Rewriting.of(builder, change.kernel))
        rewriting.split(change)
        change.parameters += parameters_of(rewriting.names, _START, parts, "FullRow")
        change.constraints += constraints_of(rewriting.names)
        did = "split the operands into parts of bf16 or TF32 beforehand, and multiplied them on tensor cores"
        return change.settled(did, rewriting.helpers)

    return split


split_products = _splitting("split-products", "bfloat16")
split_products_tf32 = _splitting("split-products-tf32", "tfloat32")
"""Begins with TF32: where a tolerance is too tight for bf16, the other is not worth a search."""


@dataclass(frozen=True)
class _Rewriting:
    builder: Builder
    product: OuterProduct
    names: dict[str, str]
    """The constants of the file by role: the tile's sides m, n and k, threads and stages."""

    @classmethod
    def of(cls, builder: Builder, kernel: PythonKernel) -> _Rewriting:
        """Return what is to be rewritten in a builder. Raises NotApplicableError."""
        product = product_of(builder)
        names = {
            "m": product.rows,
            "n": product.columns,
            "k": product.step,
            "threads": builder.threads,
            "stages": product.stages,
        }
        constants = all(isinstance(kernel.config.get(name), int) for name in names.values())
        require(constants and len(set(names.values())) == len(names), "tile, threads and stages are not five constants")
        for operand in (product.left, product.right):
            tensor = need(builder.tensors.get(operand.copy.tensor), "an operand is not a tensor of the prim_func")
            require(len(tensor.shape) == 2 and tensor.dtype == "float32", f"{tensor.name} is not a matrix of fp32")
            alone = builder.uses(tensor.name) == 1 and tensor.name != list(builder.tensors)[-1]
            require(alone, f"{tensor.name} is read elsewhere")
            # Allocated, filled, and read once.
            passed = all(name in builder.tiles and builder.uses(name) == 3 for name in operand.passed)
            require(passed, f"a tile of {tensor.name} is used elsewhere")
        require(product.left.copy.tensor != product.right.copy.tensor, "both operands are of one tensor")
        require(len(builder.tensors) == len(builder.prim.params.params), "a parameter of the prim_func is not a tensor")
        return cls(builder, product, names)

    @property
    def helpers(self) -> list[str]:
        """The functions that split the operands."""
        turned = {self._turns(item) for item in (self.product.left, self.product.right)}
        return [text for is_turned, (_, text) in SPLITTERS.items() if is_turned in turned]

    def _turns(self, operand: Operand) -> bool:
        """Return whether the last axis of an operand is not that of the sum, as tensor cores want it for TF32."""
        return operand.turned == (operand is self.product.left)

    def split(self, change: Change) -> None:
        """Edit the builder."""
        taken, builder, product = change.taken, self.builder, self.product
        operands = (product.left, product.right)
        parts = {item.copy.tensor: _pair(item.copy.tensor, taken) for item in operands}
        tiles = {item.copy.tile: _pair(f"{item.copy.tile.removesuffix('_shared')}_tile", taken) for item in operands}
        policy, part, dtype = (fresh(item, taken) for item in ("policy", "part", "parts"))
        for operand in operands:
            for name in operand.passed:
                _, shape, statement = builder.tiles[name]
                pair = tiles.get(name)
                sides = shape[::-1] if self._turns(operand) else shape
                text = "".join(f"{item} = T.alloc_shared(({', '.join(sides)}), {dtype})\n" for item in pair or ())
                if pair:
                    change.put_statements(statement, text)
                else:
                    change.remove(statement)
        fragment = f'{part} = T.alloc_fragment(({product.rows}, {product.columns}), "float32")\n'
        change.put_statements(product.allocation, fragment + code(product.allocation).strip() + "\n")
        for statement in builder.statements:
            # The accumulator's layout, and a limit on registers: both are the product's affair.
            layout = matches(statement, "T.annotate_layout({q_acc: q_layout})", acc=product.acc)
            if layout or matches(statement, "T.annotate_min_blocks_per_sm(q_number)"):
                change.remove(statement)
        change.edit(product.loop, lambda node: with_block(node, statements(self._steps(parts, tiles, part, policy))))
        given = "".join(f"    {item},\n" for item in self._parameters(parts, dtype))
        text = f"def f(\n{given}):\n    pass\n"
        change.put(builder.prim.params, cst.ensure_type(statements(text)[0], cst.FunctionDef).params)
        change.put_statements(builder.result, self._result(parts, taken))
        first = f"{dtype}, {policy} = getattr(T, PARTS), T.GemmWarpPolicy[POLICY]\n"
        change.at_start(builder.function, first)
        change.edit(builder.function, without_unused)

    def _parameters(self, parts: dict[str, list[str]], dtype: str) -> Iterable[str]:
        turned = {item.copy.tensor for item in (self.product.left, self.product.right) if self._turns(item)}
        for name, tensor in self.builder.tensors.items():
            shape = tensor.shape[::-1] if name in turned else tensor.shape
            for part in parts.get(name, ()):
                yield f"{part}: T.Tensor(({', '.join(shape)}), {dtype})"
            if name not in parts:
                yield tensor.text

    def _steps(self, parts: dict[str, list[str]], tiles: dict[str, list[str]], part: str, policy: str) -> str:
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
        builder = self.builder
        product, run = fresh("product", taken), fresh("run", taken)
        inputs = list(builder.tensors)[:-1]
        splits = {name: fresh(f"split_{name}", taken) for name in parts}
        lines = [f"{product} = tilelang.compile({builder.prim.name.value}, out_idx=[-1], target={builder.target})"]
        for operand in (self.product.left, self.product.right):
            name, (splitter, _) = operand.copy.tensor, SPLITTERS[self._turns(operand)]
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
