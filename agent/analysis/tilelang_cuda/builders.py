"""Reads a TileLang kernel file for CUDA: its builders, what their kernels allocate and copy, and their products.

A product on the CUDA cores is a pipelined loop that copies two tiles and adds their outer products.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import libcst as cst

from ....core import PythonKernel
from ..applicability import fitting, need, require
from ..source import canonical, code, names
from ..template import match, matches
from ..tilelang import cuda_tilelang, is_prim_func
from ..tree import Statement, block_of, named, only_line, with_block

T = TypeVar("T")
COMPILED = "return tilelang.compile(q_kernel, out_idx=[-1], target=q_target)"
PIPELINED = "T.Pipelined(q_n, num_stages=q_s)"
_LOOPS = (
    "T.unroll(q_step, unroll_factor=q_factor)",
    "T.unroll(q_step)",
    "T.serial(q_step)",
)
_PRODUCT = """
for q_k in {loop}:
    for q_i, q_j in T.Parallel(q_rows, q_columns):
        q_acc[q_i, q_j] += q_left * q_right
"""
_TRANSPOSITION = """
for q_n, q_k in T.Parallel(q_a, q_b):
    q_to[q_k, q_n] = q_from[q_n, q_k]
"""


@dataclass(frozen=True)
class Tensor:
    """A parameter of a prim_func: `x: T.Tensor((M, K), "float32")`."""

    name: str
    shape: tuple[str, ...]
    dtype: str

    @property
    def text(self) -> str:
        """The parameter as it is written."""
        return f'{self.name}: T.Tensor(({", ".join(self.shape)}{"," * (len(self.shape) == 1)}), "{self.dtype}")'


@dataclass(frozen=True)
class Copy:
    """`T.copy(tensor[row, column], tile)`, from global memory."""

    node: cst.CSTNode
    tensor: str
    index: tuple[str, ...]
    tile: str


@dataclass(frozen=True, eq=False)
class Builder:
    """A function that writes one `@T.prim_func` with one `with T.Kernel(...)` and returns it compiled.

    Its last tensor is the result.
    """

    function: cst.FunctionDef
    prim: cst.FunctionDef
    block: cst.With
    result: cst.SimpleStatementLine
    """`return tilelang.compile(..., out_idx=[-1], target=...)`."""
    target: str

    @property
    def statements(self) -> Sequence[Statement]:
        """The statements of the T.Kernel block."""
        return block_of(self.block)

    @functools.cached_property
    def tensors(self) -> dict[str, Tensor]:
        """The prim_func's parameters by name, in their order."""
        found = {}
        for param in self.prim.params.params:
            annotation = param.annotation.annotation if param.annotation else None
            if isinstance(annotation, cst.Call) and len(annotation.args) == 2 and code(annotation.func) == "T.Tensor":
                shape, dtype = (arg.value for arg in annotation.args)
                if isinstance(shape, cst.Tuple) and isinstance(dtype, cst.SimpleString):
                    found[param.name.value] = Tensor(param.name.value, _sizes(shape), str(dtype.evaluated_value))
        return found

    @functools.cached_property
    def tiles(self) -> dict[str, tuple[str, tuple[str, ...], Statement]]:
        """Buffers of the block by name: 'shared' or 'fragment', shape, and the statement that allocates fp32."""
        found = {}
        for statement in self.statements:
            for kind in ("shared", "fragment"):
                parts = match(f'q_name = T.alloc_{kind}(q_shape, "float32")', statement)
                if parts:
                    found[parts["name"]] = (kind, _sizes(cst.parse_expression(parts["shape"])), statement)
        return found

    @property
    def threads(self) -> str:
        """The text of `threads=...`; empty without."""
        args = cst.ensure_type(self.block.items[0].item, cst.Call).args
        return next((code(arg.value) for arg in args if arg.keyword and arg.keyword.value == "threads"), "")

    def uses(self, name: str) -> int:
        """How often the prim_func names something, its parameters apart."""
        return len(named(self.block, name))


def builders_of(kernel: PythonKernel) -> list[Builder]:
    """Return the builders of a TileLang file for CUDA. Raises NotApplicableError for other kernels."""
    found = (_builder(s) for s in cuda_tilelang(kernel).body if isinstance(s, cst.FunctionDef))
    return [item for item in found if item is not None]


def the_one(builders: Sequence[Builder], read: Callable[[Builder], T]) -> T:
    """Return what is read of the only builder that can be read so.

    Raises NotApplicableError for none, and for several.
    """
    found = fitting(builders, read, "no function builds one prim_func and returns it compiled")
    require(len(found) == 1, "several builders fit")
    return found[0]


def _builder(function: cst.FunctionDef) -> Builder | None:
    prims, result = [s for s in function.body.body if isinstance(s, cst.FunctionDef)], function.body.body[-1]
    compiled = match(COMPILED, result)
    if len(prims) != 1 or not is_prim_func(prims[0]) or compiled is None or compiled["kernel"] != prims[0].name.value:
        return None
    (block, *more) = prims[0].body.body
    if more or not isinstance(block, cst.With) or len(block.items) != 1:
        return None
    if not matches(block.items[0].item, "T.Kernel(q__)"):
        return None
    return Builder(function, prims[0], block, cst.ensure_type(result, cst.SimpleStatementLine), compiled["target"])


def _sizes(shape: cst.BaseExpression) -> tuple[str, ...]:
    return tuple(canonical(code(element.value)) for element in cst.ensure_type(shape, cst.Tuple).elements)


def copy_of(node: cst.CSTNode) -> Copy | None:
    """Return the statement as a copy from a tensor, with or without TMA; None for anything else."""
    parts = match("T.copy(q_source, q_tile)", node) or match("T.copy(q_source, q_tile, disable_tma=True)", node)
    source = cst.parse_expression(parts["source"]) if parts else None
    if parts is None or not isinstance(source, cst.Subscript) or not isinstance(source.value, cst.Name):
        return None
    return Copy(node, source.value.value, tuple(code(item.slice) for item in source.slice), parts["tile"])


def without_unused(function: cst.FunctionDef) -> cst.FunctionDef:
    """Return a builder without assignments before its prim_func whose names nothing reads."""
    body = block_of(function)
    for statement in body:
        others = [line for line in body if line is not statement]
        match only_line(statement):
            case cst.Assign(targets=[cst.AssignTarget(target=target)]) if not names(target) & names(*others):
                return without_unused(with_block(function, others))
    return function


@dataclass(frozen=True)
class Operand:
    """A tile of the product, as it is copied from its tensor."""

    copy: Copy
    turned: bool
    """Whether the step of the sum is the left operand's first axis, or the right one's last."""
    passed: tuple[str, ...]
    """The shared buffers that it passes through."""


@dataclass(frozen=True)
class OuterProduct:
    """`acc[i, j] += left[i, k] * right[k, j]` over k, in steps of a pipelined loop."""

    loop: cst.For
    stages: str
    acc: str
    allocation: Statement
    """The statement that allocates the accumulator."""
    rows: str
    columns: str
    step: str
    left: Operand
    right: Operand


def product_of(builder: Builder) -> OuterProduct:
    """Return the only product of a builder. Raises NotApplicableError where the loop does anything else, too."""
    none = "no pipelined loop copies two tiles and only adds their outer products"
    loops = [s for s in builder.statements if isinstance(s, cst.For) and match(PIPELINED, s.iter)]
    require(len(loops) == 1, none)
    loop = loops[0]
    *loads, last = block_of(loop)
    header = match(PIPELINED, loop.iter) or {}
    parts = need(next(filter(None, (match(_PRODUCT.format(loop=written), last) for written in _LOOPS)), None), none)
    copies = [copy for s in loads if (copy := copy_of(s))]
    turns = [turn for s in loads if (turn := match(_TRANSPOSITION, s))]
    rows, columns = (parts["i"], parts["k"]), (parts["k"], parts["j"])
    for side, opposite in (("left", "right"), ("right", "left")):
        left, right = _operand(parts[side], rows, copies, turns), _operand(parts[opposite], columns, copies, turns)
        if left and right:
            break
    left, right = need(left, none), need(right, none)
    alone = len(copies) == 2 and len({*left.passed, *right.passed}) == len(loads) == len(copies) + len(turns)
    require(alone, none)
    kind, shape, allocation = builder.tiles.get(parts["acc"], ("", (), last))
    fitting_sum = kind == "fragment" and shape == (parts["rows"], parts["columns"])
    require(fitting_sum, "the accumulator is not an fp32 fragment of the tile's size")
    sides = (parts["acc"], allocation, parts["rows"], parts["columns"], parts["step"])
    return OuterProduct(loop, header["s"], *sides, left, right)


def _operand(
    text: str, index: tuple[str, str], copies: Sequence[Copy], turns: Sequence[dict[str, str]]
) -> Operand | None:
    factor: cst.CSTNode = cst.parse_expression(text)
    known = {"a": index[0], "b": index[1]}
    straight, turned = match("q_tile[q_a, q_b]", factor, known), match("q_tile[q_b, q_a]", factor, known)
    found = straight or turned
    if found is None:
        return None
    tile, is_turned, passed = found["tile"], straight is None, [found["tile"]]
    for turn in turns:
        if turn["to"] == tile:
            tile, is_turned = turn["from"], not is_turned
            passed.append(tile)
    copy = next((item for item in copies if item.tile == tile), None)
    return Operand(copy, is_turned, tuple(passed)) if copy else None
