"""Reads a TileLang kernel file for CUDA: its builders, and what each of their kernels allocates and copies."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import libcst as cst
import libcst.matchers as m

from ....core import PythonKernel
from ..applicability import NotApplicable, require
from ..edit import Edit
from ..search import find_all
from ..source import Statement, code, names, statements
from ..template import canonical, match
from ..tilelang import cuda_tilelang, is_prim_func

T = TypeVar("T")
COMPILED = "return tilelang.compile(q_kernel, out_idx=[-1], target=q_target)"


@dataclass(frozen=True)
class Tensor:
    """A parameter of a prim_func: `x: T.Tensor((M, K), "float32")`."""

    name: str
    shape: tuple[str, ...]
    dtype: str


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
        return _body(self.block)

    @property
    def before(self) -> Sequence[Statement]:
        """What the builder computes before the prim_func."""
        return [s for s in _body(self.function) if s is not self.prim and s is not self.result]

    @functools.cached_property
    def tensors(self) -> dict[str, Tensor]:
        """The prim_func's parameters by name, in their order."""
        found = {}
        for param in self.prim.params.params:
            annotation = param.annotation.annotation if param.annotation else None
            if isinstance(annotation, cst.Call) and len(annotation.args) == 2 and code(annotation.func) == "T.Tensor":
                shape, dtype = (arg.value for arg in annotation.args)
                if isinstance(shape, cst.Tuple) and isinstance(dtype, cst.SimpleString):
                    sizes = tuple(canonical(code(element.value)) for element in shape.elements)
                    found[param.name.value] = Tensor(param.name.value, sizes, str(dtype.evaluated_value))
        return found

    @functools.cached_property
    def tiles(self) -> dict[str, tuple[str, tuple[str, ...], Statement]]:
        """Buffers of the block by name: 'shared' or 'fragment', shape, and the statement that allocates fp32."""
        found = {}
        for statement in self.statements:
            for kind in ("shared", "fragment"):
                parts = match(f'q_name = T.alloc_{kind}(q_shape, "float32")', statement)
                if parts:
                    shape = cst.ensure_type(cst.parse_expression(parts["shape"]), cst.Tuple)
                    found[parts["name"]] = (
                        kind,
                        tuple(canonical(code(element.value)) for element in shape.elements),
                        statement,
                    )
        return found

    @functools.cached_property
    def kernel_call(self) -> cst.Call:
        """`T.Kernel(...)`."""
        return cst.ensure_type(self.block.items[0].item, cst.Call)

    @property
    def grid(self) -> tuple[str, ...]:
        """The extents of the grid."""
        return tuple(canonical(code(arg.value)) for arg in self.kernel_call.args if arg.keyword is None)

    @property
    def threads(self) -> str:
        """The text of `threads=...`; empty without."""
        return next((code(a.value) for a in self.kernel_call.args if a.keyword and a.keyword.value == "threads"), "")

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the block's indices."""
        alias = self.block.items[0].asname
        if alias is None:
            return ()
        elements = (
            [element.value for element in alias.name.elements] if isinstance(alias.name, cst.Tuple) else [alias.name]
        )
        return tuple(code(element) for element in elements)

    def uses(self, name: str) -> int:
        """How often the prim_func names something, its parameters apart."""
        return len(find_all(self.block, m.Name(name)))


def builders_of(kernel: PythonKernel) -> list[Builder]:
    """Return the builders of a TileLang file for CUDA. Raises NotApplicable for other kernels."""
    found = (_builder(s) for s in cuda_tilelang(kernel).body if isinstance(s, cst.FunctionDef))
    return [item for item in found if item is not None]


def the_one(builders: Sequence[Builder], read: Callable[[Builder], T]) -> T:
    """Return what is read of the only builder that can be read so. Raises NotApplicable for none, and for several."""
    found: list[T] = []
    reasons: list[str] = []
    for builder in builders:
        try:
            found.append(read(builder))
        except NotApplicable as reason:
            reasons.append(str(reason))
    require(found, "; ".join(dict.fromkeys(reasons)) or "no function builds one prim_func and returns it compiled")
    require(len(found) == 1, "several builders fit")
    return found[0]


def _builder(function: cst.FunctionDef) -> Builder | None:
    if not isinstance(function.body, cst.IndentedBlock):
        return None
    prims = [s for s in function.body.body if isinstance(s, cst.FunctionDef)]
    if len(prims) != 1 or not is_prim_func(prims[0]) or not isinstance(prims[0].body, cst.IndentedBlock):
        return None
    result = function.body.body[-1]
    compiled = match(COMPILED, result)
    (block, *more) = prims[0].body.body
    if more or not isinstance(block, cst.With) or len(block.items) != 1 or compiled is None:
        return None
    if compiled["kernel"] != prims[0].name.value or not m.matches(
        block.items[0].item, m.Call(func=m.Attribute(m.Name("T"), m.Name("Kernel")))
    ):
        return None
    return Builder(function, prims[0], block, cst.ensure_type(result, cst.SimpleStatementLine), compiled["target"])


def _body(node: cst.With | cst.FunctionDef | cst.For) -> Sequence[Statement]:
    return [s for s in node.body.body if isinstance(s, cst.BaseStatement)]


def body_of(loop: cst.For) -> Sequence[Statement]:
    """Return a loop's statements."""
    return _body(loop)


def copy_of(node: cst.CSTNode) -> Copy | None:
    """Return the statement as a copy from a tensor, with or without TMA; None for anything else."""
    parts = match("T.copy(q_source, q_tile)", node) or match("T.copy(q_source, q_tile, disable_tma=True)", node)
    source = cst.parse_expression(parts["source"]) if parts else None
    if parts is None or not isinstance(source, cst.Subscript) or not isinstance(source.value, cst.Name):
        return None
    return Copy(node, source.value.value, tuple(code(item.slice) for item in source.slice), parts["tile"])


def without_unused(function: cst.FunctionDef) -> cst.FunctionDef:
    """Return a builder without assignments before its prim_func whose names nothing reads."""
    while True:
        body = cst.ensure_type(function.body, cst.IndentedBlock)
        for position, statement in enumerate(body.body):
            targets = _targets(statement)
            others = [s for i, s in enumerate(body.body) if i != position]
            if targets and not any(targets & names(other) for other in others):
                function = function.with_changes(body=body.with_changes(body=others))
                break
        else:
            return function


def _targets(statement: cst.CSTNode) -> set[str]:
    match statement:
        case cst.SimpleStatementLine(body=[cst.Assign(targets=[cst.AssignTarget(target=target)])]):
            return names(target)
    return set()


def parameters_text(builder: Builder) -> dict[str, str]:
    """Return the prim_func's parameters as text, by name."""
    return {
        name: f'{name}: T.Tensor(({", ".join(tensor.shape)},), "{tensor.dtype}")'
        if len(tensor.shape) == 1
        else f'{name}: T.Tensor(({", ".join(tensor.shape)}), "{tensor.dtype}")'
        for name, tensor in builder.tensors.items()
    }


def with_parameters(texts: Iterable[str]) -> Edit:
    """Return an edit that puts other parameters in the place of a prim_func's."""
    text = "".join(f"    {item},\n" for item in texts)
    function = cst.ensure_type(statements(f"def f(\n{text}):\n    pass\n")[0], cst.FunctionDef)
    return lambda _: function.params
