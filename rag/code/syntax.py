"""Reading a kernel file into a `Program`, from its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from .program import Assignment, Call, DeviceCode, Launch, Loop, Program, base, names

LANGUAGES = ("triton.language.", "tilelang.language.", "tilelang.cpu.language.")
_JIT = ("triton.jit", "triton.runtime.jit.jit")
_PYTHON = {"min", "max", "sum", "abs"}
"""Functions of Python that kernel languages have by the same name and with another meaning."""
_BINARY = {"max": "maximum", "min": "minimum"}
"""TileLang's functions of two values, by the names that Triton gives them; there `max` reduces a block."""
_DTYPES = {
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "int8",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8e4nv",
    "float8e5",
}


def parse(source: str) -> Program:
    """Take a kernel file apart; raises SyntaxError or ValueError when it is no Python."""
    return _Reader(ast.parse(source)).program()


class _Reader:
    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.count = 0
        self.imports: dict[str, str] = {}
        self.kernels: dict[str, DeviceCode] = {}
        self.builders: dict[str, str] = {}
        """Functions that build a TileLang kernel, and its name."""
        self.host: list[tuple[str, Call, frozenset[str]]] = []
        """The function around it, the call, and what its statement assigns to."""
        self.modules: dict[str, str] = {}
        self.constants: dict[str, Any] = {}

    def program(self) -> Program:
        for node in ast.walk(self.tree):
            self.count += 1
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.imports[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                self.imports.update({a.asname or a.name: f"{node.module}.{a.name}" for a in node.names})
        for statement in self.tree.body:
            self._host(statement, ())
        forward = [call for function, call, _ in self.host if function == "ModelNew.forward"]
        return Program(
            kernels=self.kernels,
            launches=self._launches(),
            host=[call for _, call, _ in self.host],
            forward=forward,
            modules=self.modules,
            constants=self.constants,
            cpu=any(path.startswith("tilelang.cpu") for path in self.imports.values()),
            nodes=self.count,
        )

    def _path(self, node: ast.expr) -> str:
        """The full name of a function: 'triton.language.dot', 'min', '.load'."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and (node.id in self.imports or not parts):
            return ".".join([self.imports.get(node.id, node.id), *reversed(parts)])
        return f".{parts[0]}" if parts else ""

    def _call(self, node: ast.Call) -> Call:
        path = self._path(node.func)
        if path in _PYTHON:
            path = f"python.{path}"
        if not path.startswith(LANGUAGES):
            return Call(path, node)
        op = path.rsplit(".", 1)[-1]
        return Call(op if path.startswith("triton.") else _BINARY.get(op, op), node)

    def _host(self, node: ast.AST, around: tuple[str, ...], targets: frozenset[str] = frozenset()) -> None:
        """Walk host code; `around` are the enclosing classes and functions."""
        if isinstance(node, ast.FunctionDef):
            decorators = [self._path(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list]
            if any(path in _JIT or path.endswith(".prim_func") for path in decorators):
                self.kernels[node.name] = _device(node, self._call)
                if around:
                    self.builders[around[-1]] = node.name
                for decorator in node.decorator_list:
                    self._host(decorator, around)
                return
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            around = (*around, node.name)
        elif isinstance(node, ast.Assign):
            self._assigned(node, around)
            targets = frozenset(name for target in node.targets for name in names(target))
        elif isinstance(node, ast.Call):
            self.host.append((".".join(around), self._call(node), targets))
        for child in ast.iter_child_nodes(node):
            self._host(child, around, targets)

    def _assigned(self, node: ast.Assign, around: tuple[str, ...]) -> None:
        target = node.targets[0]
        if isinstance(target, ast.Name) and not around:
            try:
                self.constants[target.id] = ast.literal_eval(node.value)
            except (ValueError, TypeError):
                return
        elif isinstance(target, ast.Attribute) and isinstance(node.value, ast.Call):
            path = self._path(node.value.func)
            if path.startswith("torch.nn.") and path.rsplit(".", 1)[-1] != "Parameter":
                self.modules[target.attr] = path

    def _launches(self) -> list[Launch]:
        """Triton: `kernel[grid](...)`. TileLang: what a builder returned is called, at once or by a name."""
        found: list[Launch] = []
        bound: dict[str, str] = {}
        unused: dict[str, str] = {}
        for function, call, targets in self.host:
            func = call.node.func
            kernel = None
            if isinstance(func, ast.Subscript) and base(func) in self.kernels:
                kernel = base(func)
            elif isinstance(func, ast.Call) and base(func.func) in self.builders:
                kernel = self.builders[base(func.func)]
            elif isinstance(func, ast.Name) and func.id in bound:
                kernel = bound[func.id]
            elif isinstance(func, ast.Name) and func.id in self.builders and not function.startswith(func.id):
                bound.update(dict.fromkeys(targets, self.builders[func.id]))
                unused[self.builders[func.id]] = func.id
            if kernel is not None:
                unused.pop(kernel, None)
                keywords = {k.arg: k.value for k in call.node.keywords if k.arg}
                for spread in (k.value for k in call.node.keywords if k.arg is None):
                    keywords |= self._spread(spread)
                found.append(Launch(kernel, tuple(call.node.args), keywords, targets))
        found += [Launch(kernel, (), {}, frozenset()) for kernel in unused if all(x.kernel != kernel for x in found)]
        return found

    def _spread(self, node: ast.expr) -> dict[str, ast.expr]:
        """What `**name` passes, where the name is assigned a dict of literal keys."""
        for part in ast.walk(self.tree) if isinstance(node, ast.Name) else ():
            if (
                isinstance(part, ast.Assign)
                and base(part.targets[0]) == base(node)
                and isinstance(part.value, ast.Dict)
            ):
                pairs = zip(part.value.keys, part.value.values, strict=True)
                return {str(key.value): value for key, value in pairs if isinstance(key, ast.Constant)}
        return {}


def _device(function: ast.FunctionDef, call_of: Any) -> DeviceCode:
    """Collect what stands in a kernel, in the order of its text."""
    parameters = tuple(arg.arg for arg in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs))
    code = DeviceCode(function.name, parameters)

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.For):
            runs_over = call_of(node.iter) if isinstance(node.iter, ast.Call) else None
            variables = tuple(sorted(names(node.target), key=lambda n: _position(node.target, n)))
            loop = Loop(runs_over.op if runs_over else "", runs_over, variables)
            code.loops.append(loop)
            starts = [len(x) for x in (code.calls, code.assignments, code.loops, code.subscripts)]
            for child in (node.iter, *node.body, *node.orelse):
                visit(child)
            ends = [len(x) for x in (code.calls, code.assignments, code.loops, code.subscripts)]
            loop.calls, loop.assignments, loop.loops, loop.reads = map(slice, starts, ends)
            return
        if isinstance(node, ast.With) and isinstance(node.items[0].context_expr, ast.Call):
            entered = call_of(node.items[0].context_expr)
            if entered.op == "Kernel":
                code.grid = entered
                given = node.items[0].optional_vars
                elements: Sequence[ast.expr] = given.elts if isinstance(given, ast.Tuple) else [given] if given else []
                code.blocks = tuple(base(element) for element in elements)
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
        elif isinstance(node, ast.Attribute) and node.attr in _DTYPES:
            code.dtypes.add(node.attr)
        elif isinstance(node, ast.Constant) and node.value in _DTYPES:
            code.dtypes.add(str(node.value))
        for child in ast.iter_child_nodes(node):
            visit(child)

    for part in (function.args, *function.body):
        visit(part)
    return code


def _position(target: ast.expr, name: str) -> int:
    elements = target.elts if isinstance(target, ast.Tuple) else [target]
    return next((i for i, element in enumerate(elements) if base(element) == name), len(elements))
