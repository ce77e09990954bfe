"""Reads TileLang kernels' loops, the buffers that statements touch, and rewrites statements of their functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import libcst as cst

from ...core import PythonKernel, Target
from ...core.languages import TILELANG
from .applicability import NotApplicableError, OtherLanguageError, require
from .change import Change
from .source import code, expression, names, statements, tree_and_names
from .template import matches
from .tree import Statement, block_of, edited, find_all, nodes_in, with_block

S = TypeVar("S", bound=cst.CSTNode)
T = TypeVar("T")
Rewriting = tuple[T, Sequence[Statement]]
"""A summary of the change, and the statements that replace one."""
EXPENSIVE = ("T.sqrt", "T.rsqrt", "T.exp", "T.log", "T.tanh", "T.sigmoid", "T.erf", "T.pow", "T.sin", "T.cos")
"""Functions of `T` that cost tens of cycles and are not vectorized as they stand."""
_KINDS = ("serial", "grid", "unroll")


def cpu_tilelang(kernel: PythonKernel, target: Target = Target.CPU) -> cst.Module:
    """Return the tree of a TileLang kernel for the CPU. Raises NotApplicableError for any other kernel."""
    if kernel.language != TILELANG or kernel.target is not target:
        raise OtherLanguageError(f"not TileLang for {'a CPU' if target is Target.CPU else 'CUDA'}")
    return tree_and_names(kernel)[0]


def cuda_tilelang(kernel: PythonKernel) -> cst.Module:
    """Return the tree of a TileLang kernel for CUDA. Raises NotApplicableError for any other kernel."""
    return cpu_tilelang(kernel, Target.CUDA)


@dataclass(frozen=True)
class TileLangLoop:
    """`for a, b in T.grid(M, N):`, `for a in T.serial(M):` or `for a in T.unroll(M):`."""

    kind: str
    variables: tuple[str, ...]
    extents: tuple[str, ...]
    body: tuple[Statement, ...]
    node: cst.For

    @property
    def only(self) -> Statement | None:
        """The single statement of the body, or None when there are more."""
        return self.body[0] if len(self.body) == 1 else None


def loop_of(node: cst.CSTNode | None) -> TileLangLoop | None:
    """Return the statement as a loop when it runs over T.serial, T.grid or T.unroll from zero, else None."""
    if not isinstance(node, cst.For) or node.orelse or not isinstance(node.body, cst.IndentedBlock):
        return None
    kind, call = next((kind for kind in _KINDS if matches(node.iter, f"T.{kind}(q__)")), ""), node.iter
    if not kind or not isinstance(call, cst.Call) or any(arg.keyword for arg in call.args):
        return None
    extents = tuple(code(arg.value) for arg in call.args)
    targets = [e.value for e in node.target.elements] if isinstance(node.target, cst.Tuple) else [node.target]
    variables = tuple(target.value for target in targets if isinstance(target, cst.Name))
    if not len(variables) == len(targets) == len(extents) or (kind != "grid" and len(extents) != 1):
        return None
    return TileLangLoop(kind, variables, extents, tuple(block_of(node)), node)


def make_loop(variables: Sequence[str], extents: Sequence[str], body: Iterable[Statement], kind: str = "") -> Statement:
    """Build a loop with this body, a serial one or a grid without another kind."""
    kind = kind or ("serial" if len(variables) == 1 else "grid")
    (loop,) = statements(f"for {', '.join(variables)} in T.{kind}({', '.join(extents)}):\n    pass\n")
    return loop.with_changes(body=cst.IndentedBlock(body=list(body)))


def rebuild(loop: TileLangLoop, body: Iterable[Statement], extents: Sequence[str] | None = None) -> Statement:
    """Build the loop again with another body, and perhaps other extents."""
    kind = "unroll" if loop.kind == "unroll" else ""
    new = make_loop(loop.variables, extents or loop.extents, body, kind)
    return new.with_changes(leading_lines=loop.node.leading_lines)


def nest_of(node: cst.CSTNode) -> list[TileLangLoop]:
    """Return a perfect nest: loops of any kind, of which each but the last contains only the next."""
    found: list[TileLangLoop] = []
    loop = loop_of(node)
    while loop is not None:
        found.append(loop)
        loop = loop_of(loop.only)
    return found


def is_window(loop: TileLangLoop) -> bool:
    """Return whether a loop walks a small sliding window, such as `T.grid(KS, KS)`.

    A window slides when some index adds one of its variables to another name, as in `x + kx`.
    """
    if len(loop.extents) < 2 or len(set(loop.extents)) > 1:
        return False
    parts = [names(expression(p)) for a in accesses(loop.node) for p in a.index if p != "*"]
    return any({variable} < part for variable in loop.variables for part in parts)


@dataclass(frozen=True)
class Access:
    """A buffer element that a statement reads or writes."""

    buffer: str
    index: tuple[str, ...]
    write: bool


def accesses(node: cst.CSTNode) -> list[Access]:
    """Return every subscript of a plain name below a node; an augmented target counts as read and written."""
    found: list[Access] = []
    targets: dict[int, bool] = {}
    for child in nodes_in(node):
        match child:
            case cst.AssignTarget(target=target):
                targets[id(target)] = False
            case cst.AugAssign(target=target):
                targets[id(target)] = True
            case cst.Subscript(value=cst.Name(value=buffer)):
                index = tuple(code(part.slice) for part in child.slice)
                if id(child) in targets:
                    found.append(Access(buffer, index, write=True))
                if targets.get(id(child), True):
                    found.append(Access(buffer, index, write=False))
            case cst.Expr(value=cst.Call(func=cst.Attribute(value=cst.Name(value="T")), args=args)):
                # Statements such as T.clear(buffer), T.fill(buffer, ...), T.copy(a, b) touch whole buffers.
                whole = [arg.value.value for arg in args if isinstance(arg.value, cst.Name) and arg.keyword is None]
                found += [Access(buffer, ("*",), write=True) for buffer in whole]
    return found


def rewrite_kernels(
    change: Change, rewrite: Callable[[Statement], tuple[T, Sequence[Statement]]], none: str
) -> list[T]:
    """Offer every statement inside the prim_funcs to `rewrite`, outer ones first.

    Raises NotApplicableError where none fits.

    Where `rewrite` raises NotApplicableError, the statement's own blocks are next. What it did is returned, in order.
    """
    done: list[T] = []

    def rewritten(node: S) -> S:
        if not isinstance(getattr(node, "body", None), cst.IndentedBlock):
            return node
        new: list[Statement] = []
        for statement in block_of(node):
            try:
                did, replaced = rewrite(statement)
                done.append(did)
                new.extend(replaced)
            except NotApplicableError:
                new.append(rewritten(statement))
        return with_block(node, new)

    kernels = [node for node in find_all(change.module, cst.FunctionDef) if is_prim_func(node)]
    change.module = edited(change.module, dict.fromkeys(kernels, rewritten))
    require(done, none)
    return done


def is_prim_func(node: cst.CSTNode) -> bool:
    """Return whether a node is a function that is decorated with T.prim_func."""
    return isinstance(node, cst.FunctionDef) and "T.prim_func" in [
        code(decorator.decorator) for decorator in node.decorators
    ]
