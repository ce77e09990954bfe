"""Writes a kernel file from the code that torch's compiler made of a reference."""

from __future__ import annotations

import ast
import contextlib
import json
import re
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst

from ...core import PythonKernel, TorchProblem
from ...core.generated_code import GeneratedCode
from ...core.syntax_tree import syntax_tree
from ..rule_proposer import formatted
from ..rules import Machine, NotApplicable
from ..rules.triton.split_precision import precision_choice
from .kernels import GeneratedKernel, helper, kernels_of
from .obstacle import Obstacle
from .tidying import tidied
from .wrapper import Wrapper, names_of, weight_expression

_OTHERS = ("get_inputs", "get_init_inputs")
_SIZES = "Right only for inputs of the shapes that it was made for: their sizes are numbers in it."


def first_kernel(problem: TorchProblem, code: GeneratedCode) -> PythonKernel:
    """Return the kernel. Raises `Obstacle` for what cannot be rewritten."""
    kernels = list(kernels_of(code))
    signature = _forward_signature(problem.source)
    given = {number: _argument(signature, number) for number in code.inputs}
    inputs = {number: re.sub(r"\W+", "_", expression).strip("_") for number, expression in given.items()}
    wrapper = Wrapper(code, kernels, names_of(code.weights, inputs))
    if not kernels:
        left = ", ".join(dict.fromkeys(wrapper.library)) or "moving data"
        raise Obstacle(f"torch's compiler leaves all of it to its library ({left}) and makes no Triton kernel")
    weights = [
        f"{name} = {weight_expression(weight)}"
        for weight, name in zip(code.weights, names_of(code.weights, {}), strict=True)
        if name in wrapper.used
    ]
    contiguous = [f"{name} = {given[number]}.contiguous()" for number, name in inputs.items() if name in wrapper.used]
    forward = [*weights, *contiguous, *wrapper.statements]
    helpers = [helper(text) for text in code.helpers.values()]
    parts = [
        *helpers,
        *(kernel.text for kernel in kernels),
        _model(problem.source, signature, forward),
    ]
    top = [
        _header(problem, kernels, wrapper.library),
        _imports(problem, [*helpers, *(kernel.source for kernel in kernels)]),
        *_constants(kernels),
    ]
    kernel = PythonKernel.parse("\n\n\n".join(["\n\n".join(filter(None, top)), *parts]) + "\n", problem.name)
    # Inductor computes fp32 products without tensor cores, which are a search's to choose.
    with contextlib.suppress(NotApplicable):
        kernel = precision_choice("ieee").apply(kernel, Machine(cores=1)).kernel
    return formatted(replace(kernel, source=tidied(kernel.source)))


def _header(problem: TorchProblem, kernels: Sequence[GeneratedKernel], library: Sequence[str]) -> str:
    count = f"{len(kernels)} Triton kernel{'s' if len(kernels) > 1 else ''}"
    left = f"; torch computes {', '.join(dict.fromkeys(library))}" if library else ""
    return f'"""{problem.name}: {count}, written by torch.compile and rewritten{left}.\n\n{_SIZES}\n"""'


def _imports(problem: TorchProblem, texts: Sequence[str]) -> str:
    whole = "\n".join(texts)
    lines = ["import triton", "import triton.language as tl"]
    if "libdevice." in whole:
        lines.append("from triton.language.extra import libdevice")
    own = [
        ast.unparse(node) for node in syntax_tree(problem.source).body if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    return "\n".join(dict.fromkeys([*own, "import torch", *lines]))


def _constants(kernels: Sequence[GeneratedKernel]) -> Iterator[str]:
    """Yield the constants, and what values they may have."""
    values = [
        f"{name} = {json.dumps(kernel.values[one])}" for kernel in kernels for one, name in kernel.constants.items()
    ]
    choices = [
        f'    "{name}": {json.dumps(list(kernel.choices[one]))},'
        for kernel in kernels
        for one, name in kernel.constants.items()
    ]
    constraints = [f'    "{constraint}",' for kernel in kernels for constraint in kernel.constraints]
    yield "\n".join(values)
    yield "\n".join(["SEARCH_SPACE = {", *choices, "}"]) if choices else ""
    yield "\n".join(["CONSTRAINTS = [", *constraints, "]"]) if constraints else ""


def _forward_signature(source: str) -> ast.arguments:
    for node in ast.walk(syntax_tree(source)):
        if isinstance(node, ast.ClassDef) and node.name == "Model":
            for statement in node.body:
                if isinstance(statement, ast.FunctionDef) and statement.name == "forward":
                    return statement.args
    raise Obstacle("a reference whose class Model has no forward of its own")


def _argument(signature: ast.arguments, number: int) -> str:
    """Return an argument of forward as an expression: 'x', or 'others[0]' of `*others`."""
    names = [item.arg for item in (*signature.posonlyargs, *signature.args)][1:]
    if number < len(names):
        return names[number]
    assert signature.vararg is not None
    return f"{signature.vararg.arg}[{number - len(names)}]"


def _model(source: str, signature: ast.arguments, forward: Sequence[str]) -> str:
    """Return the problem's module with ModelNew in the place of Model, and what its constructor needs."""
    module = cst.parse_module(source)
    body = [node for node in module.body if _is_kept(node)]
    text = module.with_changes(body=body, header=[], footer=[]).visit(_Renamed(signature, forward)).code
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
    yield from (
        get_symbol.get_name()
        for get_symbol in scope.get_symbols()
        if get_symbol.is_referenced() and get_symbol.is_global()
    )
    for inner in scope.get_children():
        yield from _globals_of(inner)


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
