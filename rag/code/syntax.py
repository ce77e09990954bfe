"""Reading a kernel file into a `Program`, from its syntax tree."""

from __future__ import annotations

import ast
from typing import Any

from ...core.scopes import Scopes
from ...core.syntax_tree import syntax_tree
from .program import Assignment, Call, DeviceCode, LoopRange, Program, names

LANGUAGES = ("triton.language.", "tilelang.language.", "tilelang.cpu.language.")
_JIT = ("triton.jit", "triton.runtime.jit.jit")
_PYTHON = {"min", "max", "sum", "abs"}
"""Functions of Python that kernel languages have by the same name and with another meaning."""
_BINARY = {"max": "maximum", "min": "minimum"}
"""TileLang's functions of two values, by the names that Triton gives them; there `max` reduces a block."""


def parse(source: str) -> Program:
    """Take a kernel file apart; raises SyntaxError or ValueError when it is not Python."""
    return _Reader(syntax_tree(source)).program()


class _Reader:
    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.scopes = Scopes(tree)
        self.kernels: dict[str, DeviceCode] = {}
        self.modules: dict[str, str] = {}

    def program(self) -> Program:
        self._host(self.tree)
        return Program(kernels=self.kernels, modules=self.modules)

    def _path(self, node: ast.expr) -> str:
        """The full name of a function: 'triton.language.dot', 'min', '.load'."""
        if (path := self.scopes.imported(node)) is not None:
            return path
        return node.id if isinstance(node, ast.Name) else f".{node.attr}" if isinstance(node, ast.Attribute) else ""

    def _call(self, node: ast.Call) -> Call:
        path = self._path(node.func)
        if path in _PYTHON:
            path = f"python.{path}"
        if not path.startswith(LANGUAGES):
            return Call(path, node)
        op = path.rsplit(".", 1)[-1]
        return Call(op if path.startswith("triton.") else _BINARY.get(op, op), node)

    def _host(self, node: ast.AST) -> None:
        """Walk host code down to the kernels."""
        if isinstance(node, ast.FunctionDef):
            decorators = [self._path(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list]
            if any(path in _JIT or path.endswith(".prim_func") for path in decorators):
                self.kernels[node.name] = _device(node, self._call)
                return
        elif isinstance(node, ast.Assign):
            target = node.targets[0]
            if isinstance(target, ast.Attribute) and isinstance(node.value, ast.Call):
                path = self._path(node.value.func)
                if path.startswith("torch.nn.") and path.rsplit(".", 1)[-1] != "Parameter":
                    self.modules[target.attr] = path
        for child in ast.iter_child_nodes(node):
            self._host(child)


def _device(function: ast.FunctionDef, call_of: Any) -> DeviceCode:
    """Collect what stands in a kernel, in the order of its text."""
    parameters = tuple(arg.arg for arg in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs))
    code = DeviceCode(function.name, parameters)

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.For):
            loop = LoopRange(tuple(names(node.target)))
            code.loops.append(loop)
            start = len(code.assignments)
            for child in (node.iter, *node.body, *node.orelse):
                visit(child)
            loop.assignments = slice(start, len(code.assignments))
            return
        if isinstance(node, ast.With) and isinstance(node.items[0].context_expr, ast.Call):
            entered = call_of(node.items[0].context_expr)
            if entered.op == "Kernel":
                code.grid = entered
        elif isinstance(node, ast.Assign):
            code.assignments += [Assignment(target, "", node.value) for target in node.targets]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            code.assignments.append(Assignment(node.target, "", node.value))
        elif isinstance(node, ast.AugAssign):
            code.assignments.append(Assignment(node.target, type(node.op).__name__, node.value))
        elif isinstance(node, ast.Call):
            code.calls.append(call_of(node))
        elif isinstance(node, ast.Subscript):
            code.subscripts.append(node)
        for child in ast.iter_child_nodes(node):
            visit(child)

    for part in (function.args, *function.body):
        visit(part)
    return code
