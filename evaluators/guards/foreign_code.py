"""Texts that reach the compiler of generated code: names of functions, flags, assembly."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .values import Values

_FOREIGN_FLAGS = re.compile(
    r"(--?pre-include|-include|-imacros|-[lL]|-Wl|-Xlinker|-fplugin|-specs|-wrapper|-B|@|-fsanitize|-finstrument)"
)
"""Compiler flags that bring in code of another file."""
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(::\w+)*(<[\w, ]*>)?")
_FOREIGN_CALLS = ("call_extern", "call_pure_extern")
_PTX_CLOCKS = re.compile(r"%(globaltimer|clock)|nanosleep")


def foreign_code(name: str, node: ast.Call, values: Values) -> Iterator[tuple[str, str]]:
    """Yield the rules that the texts in a call of a function with this name break, and what breaks them."""
    if name in _FOREIGN_CALLS and len(node.args) > 1:
        # The type of the result comes first; a name that is put together is not known here.
        texts = [text for text in map(values.text, node.args[:2]) if text is not None]
        if not texts or not all(_IDENTIFIER.fullmatch(text) for text in texts):
            yield "other-language", f"a text that {name} writes into the generated code"
    assembly = node.args[:1] if name == "inline_asm_elementwise" else []
    if any(_PTX_CLOCKS.search(values.text(text) or "") for text in assembly):
        yield "timer", "a clock that assembly reads"
    for keyword in node.keywords:
        if keyword.arg == "compile_flags":
            for flag in _texts_in(keyword.value, values):
                if _FOREIGN_FLAGS.match(flag):
                    yield "other-language", f"the compiler flag {flag}"


def _texts_in(node: ast.expr, values: Values) -> Iterator[str]:
    """Yield the texts of a list, which may have a name."""
    if isinstance(node, ast.Name):
        for binding in values.scopes.find(node) or []:
            if binding.value is not None and not isinstance(binding.value, ast.Name):
                yield from _texts_in(binding.value, values)
        return
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
