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
_READS = {"tolist", "numpy", "data", "data_ptr", "untyped_storage", "storage", "from_dlpack", "ctypes"}
"""Names of what reads memory, or where it is."""
_JIT = ("triton.jit", "jit", "triton.autotune", "triton.heuristics")


def with_visible_launches(source: str) -> tuple[str, bool]:
    """Return a kernel's text with `visible_launch(kernel)[grid]` for `kernel[grid]`, and whether it may be traced.

    It may if every use of a kernel of the file's is such a launch, or within another kernel. Raises `KernelError` for
    a file that has the name itself.
    """
    if _NAME in source:
        raise KernelError(f"the kernel has a name {_NAME}, which its package needs; rename it")
    tree = syntax_tree(source)
    kernels = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef) and _is_kernel(node)}
    inside = {id(part) for node in kernels.values() for part in ast.walk(node)}
    launched: list[ast.Name] = []
    others = False
    calls = {
        id(node.func.value): node.func.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript) and isinstance(node.func.value, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in kernels and id(node) not in inside:
            if id(node) in calls:
                launched.append(node)
            else:
                others = True
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
    """Return whether a call of a kernel's Python may be repeated from the steps that torch sees of it.

    It may if it reads no memory of tensors by other ways, and passes no addresses on.
    """
    names = {node.attr for node in ast.walk(syntax_tree(source)) if isinstance(node, ast.Attribute)}
    names |= {node.id for node in ast.walk(syntax_tree(source)) if isinstance(node, ast.Name)}
    return not names & _READS


def _is_kernel(function: ast.FunctionDef) -> bool:
    return any(ast.unparse(item).partition("(")[0] in _JIT for item in function.decorator_list)
