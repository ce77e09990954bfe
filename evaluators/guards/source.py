"""The static check: finds code that no correct kernel needs, before it runs.

It reads the syntax tree with names resolved, never the text: a comment or a string is not a violation. It is a
tripwire, not a proof: what it misses is left to the checks that run with the kernel.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from ...core import Kernel, Rejection, Target, known_languages, source_lines
from ...core.languages import TRITON
from ...core.syntax_tree import syntax_tree
from ..settings import AllowTorch
from . import operators
from .foreign_code import foreign_code
from .live import live_nodes
from .patches import patching_call, patching_store
from .paths import broken_rule, hides, words
from .rules import RULES
from .surroundings import Surroundings
from .values import Value, Values

_FRAMES = words(
    """
    __globals__ __code__ __closure__ __subclasses__ f_locals f_back f_globals f_code f_builtins gi_frame cr_frame
    ag_frame tb_frame tb_next __traceback__ func_globals func_code cell_contents __builtins__ __loader__ __spec__
    """
)
_TENSOR_HOOKS = frozenset(["__torch_function__", "__torch_dispatch__"])
_TENSOR_CLASSES = ("torch.Tensor", "torch.nn.Parameter", "torch.nn.Buffer")
_METHODS = {
    "elapsed_time": "timer", "do_bench": "timer", "get_profiler": "timer", "record_stream": "stream",
    "wait_stream": "stream", "wait_event": "stream", "as_subclass": "lazy-result", "_lazy_clone": "lazy-result",
}  # fmt: skip
_ARRAYS = ("numpy.", "scipy.linalg.", "scipy.special.", "scipy.signal.", "scipy.fft.")
"""Libraries whose functions return arrays; others could return something that computes later."""
_CPU_THREADS = "concurrent.futures.ThreadPoolExecutor"
_ENCODING = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_READABLE = re.compile(r"utf[-_]?8|ascii|us[-_]ascii", re.IGNORECASE)
_Found = Iterator[tuple[str, str]]


def find_violation(
    source: str, kernel: Kernel, allow_torch: AllowTorch, known: Collection[str] = ()
) -> Rejection | None:
    """Return the first violation by line that is none of `known`, or None."""
    found = find_violations(source, kernel, allow_torch)
    return next((item for item in found if item.why not in known), None)


def find_violations(source: str, kernel: Kernel, allow_torch: AllowTorch) -> list[Rejection]:
    """Return everything in `source` that breaks a rule, by line; empty for invalid Python.

    `kernel` gives the language and the target. Takes a few milliseconds and never raises.
    """
    try:
        tree = syntax_tree(source)
    except (SyntaxError, ValueError):
        return []
    except (RecursionError, MemoryError):
        return [_too_deep(source)]
    if (encoding := _other_encoding(source)) is not None:
        return [RULES["dynamic-code"].broken(f"the encoding {encoding}", tree, source_lines(source))]
    try:
        return _Check(tree, source, kernel, allow_torch).violations()
    except RecursionError:
        return [_too_deep(source)]


def _other_encoding(source: str) -> str | None:
    """Return the encoding that a comment names, unless Python reads the text in it as it stands here."""
    for line in source.split("\n")[:2]:
        if (match := _ENCODING.match(line)) is not None:
            return None if _READABLE.fullmatch(match[1]) else match[1]
        if line.strip() and not line.lstrip().startswith("#"):
            return None
    return None


def _too_deep(source: str) -> Rejection:
    return RULES["unreadable"].broken("the source", ast.Pass(), source_lines(source))


class _Check:
    def __init__(self, tree: ast.Module, source: str, kernel: Kernel, allow_torch: AllowTorch) -> None:
        self.tree = tree
        self.lines = source_lines(source)
        self.values = Values(tree)
        self.threads = kernel.target is Target.CPU
        self.language = kernel.language.name
        self.allow_torch = allow_torch
        self.around = Surroundings(tree, self.values)

    def violations(self) -> list[Rejection]:
        found: dict[tuple[int, str], tuple[int, Rejection]] = {}
        for node in live_nodes(self.tree, self.values.scopes):
            for rule, what in self._check(node):
                line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
                if (line, rule) not in found or column < found[line, rule][0]:
                    found[line, rule] = column, RULES[rule].broken(what, node, self.lines, self.language)
        return [found[key][1] for key in sorted(found, key=lambda key: (key[0], found[key][0]))]

    def _check(self, node: ast.AST) -> _Found:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from self._imports(node)
        elif isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            yield from self._uses(node) if isinstance(node.ctx, ast.Load) else patching_store(node, self.values)
        elif isinstance(node, ast.Call):
            yield from self._uses(node)
            yield from self._calls(node)
        elif isinstance(node, ast.ClassDef):
            yield from self._class(node)
        elif isinstance(node, ast.FunctionDef) and node.name in _TENSOR_HOOKS:
            yield "lazy-result", node.name
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            yield from self._product(node)

    def _imports(self, node: ast.Import | ast.ImportFrom) -> _Found:
        # An import runs code; only these modules must not be imported at all.
        module = getattr(node, "module", None)
        for path in [alias.name for alias in node.names] if isinstance(node, ast.Import) else [module or ""]:
            if broken_rule(path) == "reference-model":
                yield "reference-model", path

    def _uses(self, node: ast.Name | ast.Attribute | ast.Subscript | ast.Call) -> _Found:
        """Yield the rules that a reference breaks, however it names its object."""
        parent = self.values.scopes.parents.get(node)
        if isinstance(node, ast.Attribute):
            yield from self._names_of_frames(node.attr)
        if isinstance(parent, ast.Attribute) and not _is_looked_up(node):
            return  # 'torch.cuda' of 'torch.cuda.Event', which is checked as a whole
        for path in sorted(self.values.of(node)):
            if "()" not in path and not path.startswith("#"):
                rule = broken_rule(path)
                if path == "builtins.globals" and self._names_a_global(parent):
                    continue
                if rule is not None and not self._is_allowed(rule, path, node):
                    yield rule, path.removeprefix("builtins.")
                elif rule is None and self._is_torch_work(path, node):
                    yield self._work(path)
        if isinstance(node, ast.Attribute):
            yield from self._methods(node, node.value, node.attr)

    def _is_allowed(self, rule: str, path: str, node: ast.AST) -> bool:
        if rule == "torch-compiler":
            return self.allow_torch is AllowTorch.ALL
        if rule == "other-library" and path.startswith(_ARRAYS):  # a table that is computed once
            return self.around.is_called(node) and self.around.in_setup(node)
        return path == _CPU_THREADS and self.threads

    def _names_a_global(self, call: ast.AST | None) -> bool:
        """Return whether this is the call in globals()["name"], which is read as that name."""
        around = call and self.values.scopes.parents.get(call)
        return isinstance(around, ast.Subscript) and self.values.text(around.slice) is not None

    def _names_of_frames(self, name: str) -> _Found:
        if name in _FRAMES or (name == "handle" and self.language == TRITON.name):  # of an interpreted value
            yield "introspection", name

    def _is_torch_work(self, path: str, node: ast.AST) -> bool:
        if self.allow_torch is AllowTorch.ALL:
            return False
        called = self.around.is_called(node)
        # A call in the constructor cannot see an input; a mere reference can be called later.
        if called and self.around.in_setup(node):
            return False
        if called and path == "torch.einsum" and self._permutes(self.values.scopes.parents[node]):
            return False
        if operators.gives_work_back(path):
            return True
        return self.allow_torch is AllowTorch.NONE and called and operators.computes(path)

    def _work(self, path: str) -> tuple[str, str]:
        name = path.replace("torch.Tensor.", "Tensor.")
        return ("torch-operator" if operators.gives_work_back(path) else "torch-computes"), name

    def _methods(self, node: ast.expr, holder: ast.expr, name: str) -> _Found:
        """Check methods of values that may be tensors, by their names."""
        if not _may_be_tensor(self.values.of(holder)) or self.around.in_kernel(node):
            return
        called = self.around.is_called(node)
        if name in _METHODS and called:
            yield _METHODS[name], f"{name}()"
        if self.allow_torch is AllowTorch.ALL or (called and self.around.in_setup(node)):
            return
        if operators.method_gives_work_back(name, called):
            yield "torch-operator", f"Tensor.{name}"
        elif self.allow_torch is AllowTorch.NONE and called and operators.method_computes(name):
            yield "torch-computes", f"Tensor.{name}"

    def _calls(self, node: ast.Call) -> _Found:
        functions = self.values.of(node.func)
        for path in sorted(functions):
            if ".?" in path and hides(path):
                yield "hidden-name", "a name that is computed"
            yield from patching_call(path, node, self.values)
            if path == "builtins.type" and len(node.args) == 3 and self._has_tensor_base(self.values.of(node.args[1])):
                yield "lazy-result", "a subclass of torch.Tensor"
            yield from foreign_code(path.rpartition(".")[2], node, self.values)
            module = operators.module_called(path)
            called_later = module is not None and not self.around.in_setup(node)
            if called_later and self.allow_torch is not AllowTorch.ALL and "()" in path:
                yield "torch-operator", f"torch.nn.{module}"
        if isinstance(node.func, ast.Name) and "builtins.getattr" in functions and len(node.args) > 1:
            name = self.values.text(node.args[1]) or ""
            yield from self._names_of_frames(name)
            yield from self._methods(node, node.args[0], name)

    def _class(self, node: ast.ClassDef) -> _Found:
        bases: Value = frozenset().union(*(self.values.of(base) for base in node.bases))
        if self._has_tensor_base(bases):
            yield "lazy-result", "a subclass of torch.Tensor"
        called = next((name for path in bases if (name := operators.module_called(f"{path}()"))), None)
        inherits = not any(isinstance(part, ast.FunctionDef) and part.name == "forward" for part in node.body)
        if called and inherits and self.allow_torch is not AllowTorch.ALL:
            yield "torch-operator", f"the forward of torch.nn.{called}"

    def _has_tensor_base(self, bases: Value) -> bool:
        return any(path in _TENSOR_CLASSES for path in bases)

    def _product(self, node: ast.BinOp | ast.AugAssign) -> _Found:
        left = node.left if isinstance(node, ast.BinOp) else node.target
        if self.allow_torch is AllowTorch.ALL or self.around.in_setup(node) or self.around.in_kernel(node):
            return
        if isinstance(node, ast.AugAssign) or not all(path.startswith("#") for path in self.values.of(left)):
            yield "torch-operator", "the operator @"

    def _permutes(self, call: ast.AST) -> bool:
        """Return whether an einsum has one operand and only changes the order of its axes, as a view does."""
        if not isinstance(call, ast.Call) or len(call.args) != 2:
            return False
        before, arrow, after = (self.values.text(call.args[0]) or "").replace(" ", "").partition("->")
        return bool(arrow) and len(set(before)) == len(before) and sorted(before) == sorted(after)


def _may_be_tensor(holder: Value) -> bool:
    modules = ("torch.", *(f"{module}." for language in known_languages() for module in language.modules))
    return any(path == "?" or ("()" in path and path.startswith(modules)) for path in holder)


def _is_looked_up(node: ast.AST) -> bool:
    """Return whether this names something by a string, such as getattr(torch, "mm")."""
    return isinstance(node, ast.Call | ast.Subscript)
