"""The variables that a function declares, by the names that they have in its text, and what each becomes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from ..values import UnplannableCallError
from .types import CType

PREFIX = "own_"
"""Before every name of the text: the headers have variables and macros too, such as `errno`, `signgam` and one that
stands for `static`, and linkers know names such as `_init`."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class Variable:
    """A variable: a number or vector, an array of the function, or a pointer to the elements of an argument."""

    name: str
    """In what is compiled; no two variables have the same, so none hides another."""
    type: CType
    """The type of the value, or of the elements."""
    kind: Literal["value", "array", "pointer"] = "value"
    extent: int = 0
    """The bytes that an array or a pointer reaches."""


class VariableScopes:
    """The variables that can be seen, the innermost block last."""

    def __init__(self) -> None:
        self._blocks: list[dict[str, Variable]] = [{}]
        self._declared = 0

    def declare(
        self, name: str, kind: CType, form: Literal["value", "array", "pointer"] = "value", extent: int = 0
    ) -> Variable:
        """Add a variable to the innermost block."""
        if not _NAME.fullmatch(name) or name in self._blocks[-1]:
            raise UnplannableCallError(f"a second variable '{name}'")
        self._declared += 1
        variable = Variable(f"{PREFIX}{name}_{self._declared}", kind, form, extent)
        self._blocks[-1][name] = variable
        return variable

    def find(self, name: str) -> Variable:
        """Return the variable of this name. Raises `UnplannableCallError` where there is none."""
        found = self.seen(name)
        if found is None:
            raise UnplannableCallError(f"'{name}', which it does not declare")
        return found

    def seen(self, name: str) -> Variable | None:
        """Return the variable of this name, or None."""
        return next((block[name] for block in reversed(self._blocks) if name in block), None)

    @contextmanager
    def block(self) -> Iterator[None]:
        """While inside, declarations are of an inner block."""
        self._blocks.append({})
        try:
            yield
        finally:
            self._blocks.pop()
