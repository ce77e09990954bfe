"""The static check: finds code that no correct kernel needs, before it runs.

It reads the syntax tree with names resolved, never the text: a comment or a string is no violation. It is a tripwire,
not a proof: what it misses is left to the checks that run with the kernel.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from ...core import Kernel, Rejection, Target, known_languages, source_lines
from ...core.syntax_tree import syntax_tree
from ..settings import AllowTorch
from . import operators
from .live import live_nodes
from .names import Function
from .paths import broken_rule, hides, words
from .rules import RULES
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
_CHANGES = words("update setdefault pop popitem clear __setitem__ __delitem__ __ior__")
_SETTERS = frozenset(["builtins.setattr", "builtins.delattr"])
_ARRAYS = ("numpy.", "scipy.linalg.", "scipy.special.", "scipy.signal.", "scipy.fft.")
"""Libraries whose functions return arrays; others could return something that computes later."""
_CPU_THREADS = "concurrent.futures.ThreadPoolExecutor"
_ENCODING = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_READABLE = re.compile(r"utf[-_]?8|ascii|us[-_]ascii", re.IGNORECASE)
_FOREIGN_FLAGS = re.compile(
    r"(--?pre-include|-include|-imacros|-[lL]|-Wl|-Xlinker|-fplugin|-specs|-wrapper|-B|@|-fsanitize|-finstrument)"
)
"""Compiler flags that bring in code of another file."""
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(::\w+)*(<[\w, ]*>)?")
_FOREIGN_CALLS = ("call_extern", "call_pure_extern")
_PTX_CLOCKS = re.compile(r"%(globaltimer|clock)|nanosleep")
_Found = Iterator[tuple[str, str]]


def find_violation(
    source: str, kernel: Kernel, allow_torch: AllowTorch, withheld: Collection[str] = ()
) -> Rejection | None:
    """Return the first violation by line, or None."""
    return next(iter(find_violations(source, kernel, allow_torch, withheld)), None)


def find_violations(
    source: str, kernel: Kernel, allow_torch: AllowTorch, withheld: Collection[str] = ()
) -> list[Rejection]:
    """Return everything in `source` that breaks a rule, by line; empty for invalid Python.

    `kernel` gives the language and the target; of the `withheld` packages, which have the problem's own code, it must
    use nothing. Takes a few milliseconds and never raises.
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
        return _Check(tree, source, kernel, allow_torch, withheld).violations()
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
    def __init__(
        self, tree: ast.Module, source: str, kernel: Kernel, allow_torch: AllowTorch, withheld: Collection[str]
    ) -> None:
        self.tree = tree
        self.lines = source_lines(source)
        self.values = Values(tree)
        self.threads = kernel.target is Target.CPU
        self.language = kernel.language.name
        self.allow_torch = allow_torch
        self.withheld = frozenset(withheld)
        self._kernels: dict[ast.AST, bool] = {}
        self._setup: dict[ast.AST, bool] = {}

    def violations(self) -> list[Rejection]:
        found: dict[tuple[int, str], tuple[int, Rejection]] = {}
        for node in live_nodes(self.tree, self.values.names):
            for rule, what in self._check(node):
                line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
                if (line, rule) not in found or column < found[line, rule][0]:
                    found[line, rule] = column, RULES[rule].broken(what, node, self.lines, self.language)
        return [found[key][1] for key in sorted(found, key=lambda key: (key[0], found[key][0]))]

    def _check(self, node: ast.AST) -> _Found:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from self._imports(node)
        elif isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            yield from self._uses(node) if isinstance(node.ctx, ast.Load) else self._stores(node)
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
            if broken_rule(path) == "reference-model" or path.partition(".")[0] in self.withheld:
                yield "reference-model", path

    def _uses(self, node: ast.Name | ast.Attribute | ast.Subscript | ast.Call) -> _Found:
        """Yield the rules that a reference breaks, however it names its object."""
        parent = self.values.names.parents.get(node)
        if isinstance(parent, ast.Attribute) and not _is_looked_up(node):
            return  # 'torch.cuda' of 'torch.cuda.Event', which is checked as a whole
        if isinstance(node, ast.Attribute):
            yield from self._names_of_frames(node.attr)
        for path in sorted(self.values.of(node)):
            if "()" not in path and not path.startswith("#"):
                rule = "reference-model" if path.partition(".")[0] in self.withheld else broken_rule(path)
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
            return self._is_called(node) and self._in_setup(node)
        return path == _CPU_THREADS and self.threads

    def _names_a_global(self, call: ast.AST | None) -> bool:
        """Return whether this is the call in globals()["name"], which is read as that name."""
        around = None if call is None else self.values.names.parents.get(call)
        return isinstance(around, ast.Subscript) and self.values.text(around.slice) is not None

    def _names_of_frames(self, name: str) -> _Found:
        if name in _FRAMES:
            yield "introspection", name

    def _is_torch_work(self, path: str, node: ast.AST) -> bool:
        if self.allow_torch is AllowTorch.ALL:
            return False
        called = self._is_called(node)
        # A call in the constructor cannot see an input; a mere reference can be called later.
        if called and self._in_setup(node):
            return False
        if called and path == "torch.einsum" and self._permutes(self.values.names.parents[node]):
            return False
        if operators.gives_work_back(path):
            return True
        return self.allow_torch is AllowTorch.NONE and called and operators.computes(path)

    def _work(self, path: str) -> tuple[str, str]:
        name = path.replace("torch.Tensor.", "Tensor.")
        return ("torch-operator" if operators.gives_work_back(path) else "torch-computes"), name

    def _methods(self, node: ast.expr, holder: ast.expr, name: str) -> _Found:
        """Check methods of values that may be tensors, by their names."""
        if not _may_be_tensor(self.values.of(holder)) or self._in_kernel(node):
            return
        called = self._is_called(node)
        if name in _METHODS and called:
            yield _METHODS[name], f"{name}()"
        if self.allow_torch is AllowTorch.ALL or (called and self._in_setup(node)):
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
            if path in _SETTERS or path.endswith((".__setattr__", ".__delattr__")):
                if node.args and self._is_external(node.args[0]) and self._may_change(node.args[0]):
                    yield "patched-function", path.removeprefix("builtins.")
                holder = path.rpartition(".")[0]
                if holder and path not in _SETTERS and len(node.args) == 2 and _is_external(holder):
                    yield "patched-function", path
            if ".__dict__." in path and "()" not in path and path.rpartition(".")[2] in _CHANGES:
                yield "patched-function", path
            if path == "builtins.type" and len(node.args) == 3 and self._has_tensor_base(self.values.of(node.args[1])):
                yield "lazy-result", "a subclass of torch.Tensor"
            yield from self._foreign_code(path.rpartition(".")[2], node)
            module = operators.module_called(path)
            called_later = module is not None and not self._in_setup(node)
            if called_later and self.allow_torch is not AllowTorch.ALL and "()" in path:
                yield "torch-operator", f"torch.nn.{module}"
        if isinstance(node.func, ast.Name) and "builtins.getattr" in functions and len(node.args) > 1:
            name = self.values.text(node.args[1]) or ""
            yield from self._names_of_frames(name)
            yield from self._methods(node, node.args[0], name)

    def _foreign_code(self, name: str, node: ast.Call) -> _Found:
        """Check texts that reach the compiler of generated code: names of functions, flags, assembly."""
        if name in _FOREIGN_CALLS and len(node.args) > 1:
            # The type of the result comes first; a name that is put together is not known here.
            texts = [text for text in map(self.values.text, node.args[:2]) if text is not None]
            if not texts or not all(_IDENTIFIER.fullmatch(text) for text in texts):
                yield "other-language", f"a text that {name} writes into the generated code"
        assembly = node.args[:1] if name == "inline_asm_elementwise" else []
        if any(_PTX_CLOCKS.search(self.values.text(text) or "") for text in assembly):
            yield "timer", "a clock that assembly reads"
        for keyword in node.keywords:
            if keyword.arg == "compile_flags":
                for flag in self._texts_in(keyword.value):
                    if _FOREIGN_FLAGS.match(flag):
                        yield "other-language", f"the compiler flag {flag}"

    def _texts_in(self, node: ast.expr) -> Iterator[str]:
        """Yield the texts of a list, which may have a name."""
        if isinstance(node, ast.Name):
            for binding in self.values.names.scope_of[node].find(node.id) or []:
                if binding.value is not None and not isinstance(binding.value, ast.Name):
                    yield from self._texts_in(binding.value)
            return
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value

    def _stores(self, node: ast.Name | ast.Attribute | ast.Subscript) -> _Found:
        """Check assignments to objects that the file does not define."""
        if isinstance(node, ast.Name):
            return
        if isinstance(node, ast.Attribute) and node.attr == "__class__":
            yield "lazy-result", "an object that changes its class"
        elif isinstance(node, ast.Attribute) and node.attr in ("__code__", "__builtins__"):
            yield "introspection", node.attr
        elif isinstance(node, ast.Subscript) and any(broken_rule(path) for path in self.values.of(node.value)):
            return  # reported where it is named
        elif self._is_external(node.value) and self._may_change(node):
            yield "patched-function", f"an assignment to {_short(node)}"

    def _is_external(self, node: ast.expr) -> bool:
        """Return whether this is a module or class from outside the file, or the class of an object."""
        if isinstance(node, ast.Attribute) and node.attr == "__class__":
            return any(not path.startswith("#") for path in self.values.of(node.value))
        if isinstance(node, ast.Call) and "builtins.type" in self.values.of(node.func) and len(node.args) == 1:
            return any(not path.startswith("#") for path in self.values.of(node.args[0]))
        return any(_is_external(path) for path in self.values.of(node))

    def _may_change(self, node: ast.expr) -> bool:
        """Return False except for switches of precision and back ends, which affect only torch in this process."""
        return not any(path.startswith("torch.backends") for path in self.values.of(node))

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
        if self.allow_torch is AllowTorch.ALL or self._in_setup(node) or self._in_kernel(node):
            return
        if isinstance(node, ast.AugAssign) or not all(path.startswith("#") for path in self.values.of(left)):
            yield "torch-operator", "the operator @"

    def _permutes(self, call: ast.AST) -> bool:
        """Return whether an einsum has one operand and only changes the order of its axes, as a view does."""
        if not isinstance(call, ast.Call) or len(call.args) != 2:
            return False
        before, arrow, after = (self.values.text(call.args[0]) or "").replace(" ", "").partition("->")
        return bool(arrow) and len(set(before)) == len(before) and sorted(before) == sorted(after)

    def _is_called(self, node: ast.AST) -> bool:
        parent = self.values.names.parents.get(node)
        return isinstance(parent, ast.Call) and parent.func is node

    def _in_kernel(self, node: ast.AST) -> bool:
        """Return whether this is in the body of a function in the kernel language."""
        for around in self.values.names.surrounding(node):
            if around not in self._kernels:
                self._kernels[around] = self.values.is_kernel(around)
            if self._kernels[around]:
                return True
        return False

    def _in_setup(self, node: ast.AST) -> bool:
        """Return whether this runs only when the file is loaded or the model is constructed."""
        functions = [around for around in self.values.names.surrounding(node) if isinstance(around, Function)]
        if not functions:
            return True
        return len(functions) == 1 and (
            getattr(functions[0], "name", "") == "__init__" or self._serves_setup(functions[0])
        )

    def _serves_setup(self, function: Function) -> bool:
        """Return whether all that is done with a function of the module is calling it where `_in_setup` holds."""
        if function not in self._setup:
            self._setup[function] = False  # one that calls itself does not count
            self._setup[function] = (
                isinstance(function, ast.FunctionDef)
                and function in self.tree.body
                and not function.decorator_list
                and self._only_called_early(function.name)
            )
        return self._setup[function]

    def _only_called_early(self, name: str) -> bool:
        uses = self.values.names.uses(name)
        return bool(uses) and all(
            isinstance(use, ast.Name) and self._is_called(use) and self._in_setup(use) for use in uses
        )


def _is_external(path: str) -> bool:
    return path[:1] not in ("?", "!", "#") and "()" not in path and not path.startswith("builtins.globals")


def _may_be_tensor(holder: Value) -> bool:
    modules = ("torch.", *(f"{module}." for language in known_languages() for module in language.modules))
    return any(path == "?" or ("()" in path and path.startswith(modules)) for path in holder)


def _is_looked_up(node: ast.AST) -> bool:
    """Return whether this names something by a string, such as getattr(torch, "mm")."""
    return isinstance(node, ast.Call | ast.Subscript)


def _short(node: ast.AST) -> str:
    try:
        return ast.unparse(node)[:60]
    except (RecursionError, ValueError):
        return "a library"
