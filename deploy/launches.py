"""Launches of Triton kernels, made visible to torch.compile."""

from __future__ import annotations

import ast
import re

from ..core import KernelError
from ..core.source_text import source_lines
from ..core.syntax_tree import syntax_tree
from ..core.user_package import with_lines

_NAME = "visible_launch"
_DESCRIPTOR = re.compile(r"tensor_?descriptor", re.IGNORECASE)  # of the host or of tl.make_tensor_descriptor
_READS = {
    "tolist", "numpy", "data", "data_ptr", "const_data_ptr", "mutable_data_ptr", "untyped_storage", "storage", "ctypes",
    "dlpack", "from_dlpack", "to_dlpack", "__dlpack__", "__array__", "load_inline", "cpp_extension",
    "torch_function", "adapter",
}  # fmt: skip
"""Names of functions that read memory or its address, or call a kernel so that no recorder sees it."""
_SEEN = {
    "__future__", "abc", "collections", "contextlib", "dataclasses", "enum", "functools", "itertools", "math",
    "operator", "platform", "tilelang", "torch", "triton", "typing",
}  # fmt: skip
"""Modules that read no tensors but by operators of torch, start no threads and draw no numbers of their own."""
_JIT = ("triton.jit", "jit", "triton.autotune", "triton.heuristics")
_COMPILES = {"jit", "autotune", "heuristics", "compile"}


def with_visible_launches(source: str) -> tuple[str, bool]:
    """Return a kernel's text with `visible_launch(kernel)[grid]` for `kernel[grid]`, and whether it may be traced.

    It may if every use of a kernel of the file's is such a launch, or within another kernel. Raises `KernelError` for
    a file that has the name itself.
    """
    if _NAME in source:
        raise KernelError(f"the kernel has a name {_NAME}, which its package needs; rename it")
    launched, others = _launches(syntax_tree(source))
    if not launched:
        return source, False
    lines = source_lines(source, keepends=True)
    for node in sorted(launched, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        line = lines[node.lineno - 1].encode()
        end = node.end_col_offset or 0
        lines[node.lineno - 1] = (line[: node.col_offset] + f"{_NAME}({node.id})".encode() + line[end:]).decode()
    visible = with_lines("".join(lines), ["", f"from ..launch import launch as {_NAME}"])
    return visible, not others and not _DESCRIPTOR.search(source)


def is_repeatable(source: str) -> bool:
    """Return whether a call of a kernel's Python may be repeated from its recorded steps.

    It may if it reads no memory of tensors by other ways, passes no addresses on, and launches every Triton kernel so
    that the recorder sees it: kernels of the file's own, by `kernel[grid](...)`.
    """
    tree = syntax_tree(source)
    names = set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute():
                names.add(node.attr)
            case ast.Call(func=ast.Name("getattr")) if ast.unparse(node.args[0]) != "torch":  # a dtype by its name
                return False
            case ast.Name():
                names.add(node.id)
            case ast.Import() | ast.ImportFrom():
                if not _is_seen(node):
                    return False
                names |= {part for item in node.names for part in item.name.split(".")}
                names |= {*((node.module or "").split(".") if isinstance(node, ast.ImportFrom) else ())}
    return not names & _READS and not _launches(tree)[1] and not _compiles_elsewhere(tree)


def _launches(tree: ast.Module) -> tuple[list[ast.Name], bool]:
    """Return the names of the file's kernels where they are launched, and whether they are used otherwise."""
    kernels = _kernels(tree)
    inside = {id(part) for node in kernels.values() for part in ast.walk(node)}
    calls = {
        id(node.func.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript) and isinstance(node.func.value, ast.Name)
    }
    used = [
        node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in kernels and id(node) not in inside
    ]
    launched = [node for node in used if id(node) in calls]
    return launched, len(launched) < len(used)


def _kernels(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef) and _is_kernel(node)}


def _is_seen(node: ast.Import | ast.ImportFrom) -> bool:
    """Return whether imports cannot hide a step: Triton must keep its name, by which its kernels are found."""
    if isinstance(node, ast.ImportFrom):
        root = (node.module or "").partition(".")[0]
        renamed = root == "triton" and any(item.asname and item.name != "language" for item in node.names)
        return node.level == 0 and root in _SEEN and not renamed
    roots = {item.name.partition(".")[0] for item in node.names}
    return roots <= _SEEN and not any(item.asname and item.name == "triton" for item in node.names)


def _compiles_elsewhere(tree: ast.Module) -> bool:
    """Return whether kernels other than TileLang's may be made outside functions at the file's top level."""
    known = {id(part) for node in _kernels(tree).values() for item in node.decorator_list for part in ast.walk(item)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _COMPILES and id(node) not in known:
            if ast.unparse(node.value).partition(".")[0] != "tilelang":
                return True
        elif isinstance(node, ast.Name) and node.id in _COMPILES and id(node) not in known:
            return True
    return False


def _is_kernel(function: ast.FunctionDef) -> bool:
    return any(ast.unparse(item).partition("(")[0] in _JIT for item in function.decorator_list)
