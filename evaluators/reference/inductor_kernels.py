"""The parts of Inductor's code that its text does not show: configs of each kernel, and helpers that it calls."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Any

from ...core.syntax_tree import syntax_tree
from ..languages.base import replaced

_FUNCTION = """
def _function(fn):
    from types import SimpleNamespace

    names = list(fn.__code__.co_varnames[: fn.__code__.co_argcount])
    return SimpleNamespace(fn=fn, arg_names=names, __name__=fn.__name__, src="", params=[])
"""
"""The part of a `triton.JITFunction` that Inductor's decorators use."""
_HELPER = re.compile(r"\btriton_helpers\.(\w+)")


def kernel_texts(code: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of each Triton kernel in Inductor's code."""
    for node in ast.walk(syntax_tree(code)):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="triton"),
                args=[ast.Constant(value=str(name)), ast.Constant(value=str(text)), *_],
            ):
                yield name, text


def configs(text: str, name: str) -> Iterator[dict[str, int]]:
    """Yield the configs that Inductor would try for a kernel, the one that it would take unmeasured first."""
    from torch._inductor.runtime import triton_helpers

    module: dict[str, Any] = {"__file__": "kernel.py", "__name__": name}
    with replaced(triton_helpers, "set_driver_to_gpu", lambda _: lambda: None):
        exec(compile(_with_lines(text), f"<{name}>", "exec"), module)
    for config in module[name].configs:
        yield config_of(config)


def _with_lines(text: str) -> str:
    """Return the text without `@triton.jit`, which needs a file to read the function from."""
    return f"{_FUNCTION}\n{text.replace('@triton.jit', '@_function')}"


def helpers(texts: Any) -> dict[str, str]:
    """Return the source of Inductor's helper functions that kernels call, by name, each after those that it calls."""
    from torch._inductor.runtime import triton_helpers

    found: dict[str, str] = {}

    def add(name: str) -> None:
        function = getattr(triton_helpers, name, None)
        source = getattr(function, "fn", None)
        if name in found or source is None:
            return
        text = inspect.getsource(source)
        for other in re.findall(r"\b(\w+)\b", text):
            if other != name and getattr(getattr(triton_helpers, other, None), "fn", None) is not None:
                add(other)
        found[name] = text

    for text in texts:
        for name in _HELPER.findall(text):
            add(name)
    return found


def config_of(config: Any) -> dict[str, int]:
    """Return a `triton.Config` as data."""
    return {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
