"""Code of pages and notebooks, with kernelwright's functions as quick as its commands in tests, without a sandbox."""

from __future__ import annotations

import ast
import inspect

import kernelwright

OPTIONS = {"quick": True, "sandbox": "none"}


def quickly(code: str) -> ast.Module:
    """Return code with `OPTIONS` in calls of functions of kernelwright that have one of these and do not set it.

    Functions read no variables, so `KERNELWRIGHT_QUICK` does not reach them: in full they wait until nothing else runs,
    and in a sandbox each starts servers that import torch anew.
    """
    return ast.fix_missing_locations(_Quick().visit(ast.parse(code)))


class _Quick(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        match node.func:
            case ast.Attribute(value=ast.Name(id="kernelwright"), attr=name) if name in kernelwright.__all__:
                options = inspect.signature(getattr(kernelwright, name)).parameters
                for option in OPTIONS.keys() & options.keys() - {keyword.arg for keyword in node.keywords}:
                    _add(node, option, ast.Constant(OPTIONS[option]))
        return node


def _add(call: ast.Call, name: str, value: ast.expr) -> None:
    """Add an argument, which those in a `**` may set otherwise."""
    for keyword in call.keywords:
        if keyword.arg is None:
            keyword.value = ast.Dict(keys=[ast.Constant(name), None], values=[value, keyword.value])
            return
    call.keywords.append(ast.keyword(name, value))
