"""A kernel file taken apart. Comments and strings do not exist here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Call:
    """A call; `op` is the last part of the name for functions of the kernel language ('dot', 'alloc_shared'), '.load'
    for methods, and else the whole name ('torch.relu', 'min')."""

    op: str
    node: ast.Call


@dataclass(frozen=True)
class Assignment:
    """One target and the value that it gets; `op` is 'Add', 'Mult', ... where it is augmented, else ''."""

    target: ast.expr
    op: str
    value: ast.expr

    @property
    def name(self) -> str:
        """The variable or buffer that is written."""
        return base(self.target)


@dataclass
class LoopRange:
    """A loop, and which of its function's assignments stand in it, as a range of their list."""

    variables: tuple[str, ...]
    assignments: slice = field(default_factory=lambda: slice(0, 0))


@dataclass
class DeviceCode:
    """One kernel: a Triton function or a TileLang prim_func."""

    name: str
    parameters: tuple[str, ...]
    calls: list[Call] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    loops: list[LoopRange] = field(default_factory=list)
    subscripts: list[ast.Subscript] = field(default_factory=list)
    """In the order of the text, whether read or written."""
    grid: Call | None = None
    """TileLang's T.Kernel(...)."""

    def ops(self) -> set[str]:
        """Return the operations of all calls."""
        return {call.op for call in self.calls}


@dataclass
class Program:
    """A kernel file."""

    kernels: dict[str, DeviceCode]
    modules: dict[str, str]
    """Attributes of the model that are torch modules: {'linear': 'torch.nn.Linear'}."""


def base(node: ast.expr) -> str:
    """The variable at the root of a name, an element, an attribute; '' if there is none."""
    while isinstance(node, ast.Subscript | ast.Attribute | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def names(node: ast.AST) -> set[str]:
    """Every variable in an expression."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def values(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of an expression that are values, not indices of elements."""
    yield node
    for field_name, child in ast.iter_fields(node):
        if not (isinstance(node, ast.Subscript) and field_name == "slice"):
            for part in child if isinstance(child, list) else [child]:
                if isinstance(part, ast.AST):
                    yield from values(part)


def products(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The two factors of every product in an expression, without casts around them."""
    for part in values(node):
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult):
            yield _uncast(part.left), _uncast(part.right)


def _uncast(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Call) and node.args:
        node = node.args[0]
    return node


def is_tile_product(left: ast.expr, right: ast.expr) -> bool:
    """`A[i, k] * B[k, j]` or `a[:, None] * b[None, :]`: each factor meets several of the other."""
    if not (isinstance(left, ast.Subscript) and isinstance(right, ast.Subscript)) or base(left) == base(right):
        return False
    first, second = ast.unparse(left.slice), ast.unparse(right.slice)
    return first != second and ("," in first or "," in second)
