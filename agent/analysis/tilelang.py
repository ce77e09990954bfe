"""Reads TileLang kernels' loops, the buffers that statements touch, and rewrites statements of their functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from ...core import PythonKernel, Target
from ...core.languages import TILELANG
from .applicability import OtherLanguage
from .source import Statement, code, expression, names, statements, tree_and_names

EXPENSIVE = ("sqrt", "rsqrt", "exp", "log", "tanh", "sigmoid", "erf", "pow", "sin", "cos")
"""Functions of `T` that cost tens of cycles and are not vectorized as they stand."""


def cpu_tilelang(kernel: PythonKernel) -> cst.Module:
    """Return the tree of a TileLang kernel for the CPU. Raises NotApplicable for any other kernel."""
    if kernel.language != TILELANG or kernel.target is not Target.CPU:
        raise OtherLanguage("not TileLang for a CPU")
    return tree_and_names(kernel)[0]


def cuda_tilelang(kernel: PythonKernel) -> cst.Module:
    """Return the tree of a TileLang kernel for CUDA. Raises NotApplicable for any other kernel."""
    if kernel.language != TILELANG or kernel.target is not Target.CUDA:
        raise OtherLanguage("not TileLang for CUDA")
    return tree_and_names(kernel)[0]


@dataclass(frozen=True)
class Loop:
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


def loop_of(node: cst.CSTNode | None) -> Loop | None:
    """Return the statement as a loop when it runs over T.serial, T.grid or T.unroll from zero, else None."""
    if not isinstance(node, cst.For) or node.orelse or not isinstance(node.body, cst.IndentedBlock):
        return None
    call = node.iter
    if not m.matches(call, m.Call(func=m.Attribute(m.Name("T"), m.Name("serial") | m.Name("grid") | m.Name("unroll")))):
        return None
    assert isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute)
    extents = tuple(code(arg.value) for arg in call.args)
    if any(arg.keyword for arg in call.args) or (call.func.attr.value != "grid" and len(extents) != 1):
        return None
    targets = [e.value for e in node.target.elements] if isinstance(node.target, cst.Tuple) else [node.target]
    variables = tuple(target.value for target in targets if isinstance(target, cst.Name))
    if len(variables) != len(extents) or len(targets) != len(extents):
        return None
    body = tuple(s for s in node.body.body if isinstance(s, cst.BaseStatement))
    return Loop(call.func.attr.value, variables, extents, body, node)


def make_loop(variables: Sequence[str], extents: Sequence[str], body: Iterable[Statement]) -> cst.For:
    """Build a serial loop or grid with this body."""
    kind = "serial" if len(variables) == 1 else "grid"
    header = f"for {', '.join(variables)} in T.{kind}({', '.join(extents)}):\n    pass\n"
    loop = statements(header)[0]
    assert isinstance(loop, cst.For)
    return loop.with_changes(body=cst.IndentedBlock(body=list(body)))


def rebuild(loop: Loop, body: Iterable[Statement], extents: Sequence[str] | None = None) -> cst.For:
    """Build the loop again with another body, and perhaps other extents."""
    new = make_loop(loop.variables, extents or loop.extents, body)
    kind = m.Attribute(m.Name("T"), m.Name("serial") | m.Name("grid"))
    if loop.kind == "unroll" and m.matches(new.iter, m.Call(func=kind)):
        new = new.with_deep_changes(new.iter, func=expression("T.unroll"))
    return new.with_changes(leading_lines=loop.node.leading_lines)


def nest_of(node: cst.CSTNode) -> list[Loop]:
    """Return a perfect nest: loops of any kind, of which each but the last contains only the next."""
    found: list[Loop] = []
    loop = loop_of(node)
    while loop is not None:
        found.append(loop)
        loop = loop_of(loop.only)
    return found


def is_window(loop: Loop) -> bool:
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

    class Visitor(cst.CSTVisitor):
        def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
            targets[id(node.target)] = False

        def visit_AugAssign(self, node: cst.AugAssign) -> None:
            targets[id(node.target)] = True

        def visit_Subscript(self, node: cst.Subscript) -> None:
            if isinstance(node.value, cst.Name):
                index = tuple(code(part.slice) for part in node.slice)
                if id(node) in targets:
                    found.append(Access(node.value.value, index, write=True))
                if targets.get(id(node), True):
                    found.append(Access(node.value.value, index, write=False))

        def visit_Expr(self, node: cst.Expr) -> None:
            # Statements such as T.clear(buffer), T.fill(buffer, ...), T.copy(a, b) touch whole buffers.
            if m.matches(node.value, m.Call(func=m.Attribute(m.Name("T")))):
                assert isinstance(node.value, cst.Call)
                for arg in node.value.args:
                    if isinstance(arg.value, cst.Name) and arg.keyword is None:
                        found.append(Access(arg.value.value, ("*",), write=True))

    node.visit(Visitor())
    return found


Rewrite = Callable[[Statement, Sequence[Statement]], Sequence[Statement] | None]


def rewrite_kernels(module: cst.Module, rewrite: Rewrite) -> cst.Module:
    """Offer every statement inside the prim_funcs to `rewrite`, outer ones first.

    `rewrite(statement, after)` sees the statement and those that follow it in its block. It returns the statements
    that replace it, or None to continue inside the statement's own blocks.
    """

    class Kernels(cst.CSTTransformer):
        def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
            return _rewrite_blocks(updated_node, rewrite) if is_prim_func(updated_node) else updated_node  # type: ignore[return-value]

    return module.visit(Kernels())


def _rewrite_blocks(node: cst.CSTNode, rewrite: Rewrite) -> cst.CSTNode:
    body = getattr(node, "body", None)
    if not isinstance(body, cst.IndentedBlock):
        return node
    new: list[Statement] = []
    for position, statement in enumerate(body.body):
        assert isinstance(statement, cst.BaseStatement)
        replaced = rewrite(statement, [s for s in body.body[position + 1 :] if isinstance(s, cst.BaseStatement)])
        if replaced is None:
            inner = _rewrite_blocks(statement, rewrite)
            assert isinstance(inner, cst.BaseStatement)
            new.append(inner)
        else:
            new.extend(replaced)
    return node.with_changes(body=body.with_changes(body=new))


def is_prim_func(node: cst.FunctionDef) -> bool:
    """Return whether a function is decorated with T.prim_func."""
    prim_func = m.Decorator(m.Attribute(m.Name("T"), m.Name("prim_func")))
    return any(m.matches(decorator, prim_func) for decorator in node.decorators)
