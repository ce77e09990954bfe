"""The parts of a first kernel's file that come from the problem's: imports, the module with another forward."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from ...core import TorchProblem
from ...core.syntax_tree import syntax_tree
from .unsupported_code import UnsupportedCodeError

_OTHERS = ("get_inputs", "get_init_inputs")
SIZES = "Right only for inputs of the shapes that it was made for: their sizes are numbers in it."
RANGE = "Right for {free.in_words}, an argument of its kernels; other sizes are numbers in it."


def imports(problem: TorchProblem, texts: Sequence[str]) -> str:
    """Return a kernel file's imports: the problem's own, and those that its kernels need."""
    whole = "\n".join(texts)
    lines = ["import triton", "import triton.language as tl"]
    if "libdevice." in whole:
        lines.append("from triton.language.extra import libdevice")
    own = [
        ast.unparse(node) for node in syntax_tree(problem.source).body if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    return "\n".join(dict.fromkeys([*own, "import torch", *lines]))


def forward_signature(source: str) -> ast.arguments:
    """Return the arguments of the reference's forward. Raises `UnsupportedCodeError` where it has none of its own."""
    for node in ast.walk(syntax_tree(source)):
        if isinstance(node, ast.ClassDef) and node.name == "Model":
            for statement in node.body:
                if isinstance(statement, ast.FunctionDef) and statement.name == "forward":
                    return statement.args
    raise UnsupportedCodeError("a reference whose class Model has no forward of its own")


def argument(signature: ast.arguments, number: int) -> str:
    """Return an argument of forward as an expression: 'x', or 'others[0]' of `*others`."""
    names = [item.arg for item in (*signature.posonlyargs, *signature.args)][1:]
    if number < len(names):
        return names[number]
    assert signature.vararg is not None
    return f"{signature.vararg.arg}[{number - len(names)}]"


def model(problem: TorchProblem, signature: ast.arguments, forward: Sequence[str]) -> str:
    """Return the problem's module with ModelNew in place of Model, with what its constructor needs, at its sizes."""
    module = cst.parse_module(problem.source)
    body = [node for node in module.body if _is_kept(node)]
    whole = module.with_changes(body=body, header=[], footer=[])
    text = whole.visit(_Resized(problem.sizes)).visit(_Renamed(signature, forward)).code
    return _without_unused(text).strip()


def _is_kept(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.FunctionDef):
        return node.name.value not in _OTHERS
    if isinstance(node, cst.SimpleStatementLine):
        return not any(isinstance(statement, cst.Import | cst.ImportFrom | cst.Expr) for statement in node.body)
    return True


def _without_unused(text: str) -> str:
    """Return the text without the sizes that only `get_inputs` needs."""
    tree, used = syntax_tree(text), set(_globals_of(symtable.symtable(text, "model", "exec")))
    lines = text.splitlines()
    for node in tree.body:
        if (
            isinstance(node, ast.Assign)
            and not {target.id for target in node.targets if isinstance(target, ast.Name)} & used
        ):
            lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    left = "\n".join(lines)
    return left if left == text else _without_unused(left)  # what only those needed


def _globals_of(scope: symtable.SymbolTable) -> Iterator[str]:
    """Yield the module's names that a scope, or one inside of it, reads."""
    yield from (symbol.get_name() for symbol in scope.get_symbols() if symbol.is_referenced() and symbol.is_global())
    for inner in scope.get_children():
        yield from _globals_of(inner)


class _Resized(cst.CSTTransformer):
    """Gives the module's sizes the values of a workload."""

    def __init__(self, sizes: Mapping[str, object]) -> None:
        self._sizes = sizes

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        return False

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        match updated_node.targets:
            case [cst.AssignTarget(target=cst.Name(value=name))] if name in self._sizes:
                size = self._sizes[name]  # a list was a tuple: JSON has none
                text = repr(tuple(size) if isinstance(size, list) else size)
                return updated_node.with_changes(value=cst.parse_expression(text))
        return updated_node


class _Renamed(cst.CSTTransformer):
    """Makes ModelNew of Model, with another forward."""

    def __init__(self, signature: ast.arguments, forward: Sequence[str]) -> None:
        body = "\n".join(f"    {line}" for statement in forward for line in statement.splitlines())
        text = f"def forward({ast.unparse(signature)}):\n{body}\n"
        self._forward = cst.ensure_type(cst.parse_statement(text), cst.FunctionDef).with_changes(
            leading_lines=[cst.EmptyLine(indent=False)]
        )
        self._inside: list[str] = []

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._inside.append(node.name.value)

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        self._inside.pop()
        return updated_node

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.BaseStatement:
        if self._inside == ["Model"] and updated_node.name.value == "forward":
            return self._forward
        return updated_node

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        return updated_node.with_changes(value="ModelNew") if updated_node.value == "Model" else updated_node
