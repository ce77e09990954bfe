"""A kernel file taken apart: device code, launches, host code. Comments and strings do not exist here."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    """A call; `op` is the last part of the name for functions of the kernel language ('dot', 'alloc_shared'), '.load'
    for methods, and else the whole name ('torch.relu', 'min')."""

    op: str
    node: ast.Call

    def keyword(self, name: str) -> ast.expr | None:
        """Return the value of a keyword argument, or None."""
        return next((k.value for k in self.node.keywords if k.arg == name), None)


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
class Loop:
    """A loop, and which of its function's calls, assignments and loops stand in it, as ranges of their lists."""

    kind: str
    """What it runs over: 'range', 'static_range', 'serial', 'Parallel', 'Pipelined', ..."""
    call: Call | None
    variables: tuple[str, ...]
    calls: slice = field(default_factory=lambda: slice(0, 0))
    assignments: slice = field(default_factory=lambda: slice(0, 0))
    loops: slice = field(default_factory=lambda: slice(0, 0))
    reads: slice = field(default_factory=lambda: slice(0, 0))


@dataclass
class DeviceCode:
    """One kernel: a Triton function or a TileLang prim_func."""

    name: str
    parameters: tuple[str, ...]
    calls: list[Call] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    subscripts: list[ast.Subscript] = field(default_factory=list)
    """In the order of the text, whether read or written."""
    grid: Call | None = None
    """TileLang's T.Kernel(...)."""
    blocks: tuple[str, ...] = ()
    """The names of the block indices that T.Kernel gives."""
    dtypes: set[str] = field(default_factory=set)

    def ops(self) -> set[str]:
        """Return the operations of all calls."""
        return {call.op for call in self.calls}


@dataclass(frozen=True)
class Launch:
    """A call of a kernel from host code."""

    kernel: str
    arguments: tuple[ast.expr, ...]
    keywords: dict[str, ast.expr]
    results: frozenset[str]
    """Host variables that get its result."""


@dataclass
class Program:
    """A kernel file."""

    kernels: dict[str, DeviceCode]
    launches: list[Launch]
    host: list[Call]
    """The calls outside of device code."""
    forward: list[Call]
    """Those of them in ModelNew.forward."""
    modules: dict[str, str]
    """Attributes of the model that are torch modules: {'linear': 'torch.nn.Linear'}."""
    constants: dict[str, Any]
    cpu: bool
    """Whether it is TileLang for the CPU."""
    nodes: int
    """Of the whole syntax tree."""

    def value(self, node: ast.expr | None, device: DeviceCode | None = None) -> Any:
        """The value of a literal or a constant, also where a launch passes it to a parameter; else None."""
        if isinstance(node, ast.Constant):
            return node.value
        if not isinstance(node, ast.Name):
            return None
        if device is not None and node.id in device.parameters:
            given = [launch.keywords.get(node.id) for launch in self.launches if launch.kernel == device.name]
            return self.value(given[0]) if given else None
        return self.constants.get(node.id)


def base(node: ast.expr) -> str:
    """The variable at the root of a name, an element, an attribute; '' where there is none."""
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


def in_loop(code: DeviceCode, loop: Loop) -> tuple[Sequence[Call], Sequence[Assignment], Sequence[Loop]]:
    """What stands in a loop, nested loops included."""
    return code.calls[loop.calls], code.assignments[loop.assignments], code.loops[loop.loops]


def sequential(code: DeviceCode) -> Iterator[Loop]:
    """The loops that one program or block runs step by step."""
    return (loop for loop in code.loops if loop.kind not in ("Parallel", "vectorized"))
