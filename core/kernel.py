"""Kernels: source text with parameters that a config sets."""

from __future__ import annotations

import ast
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from .errors import KernelError, SpaceError
from .language import Language, Target, backend, known_languages, recognize
from .source_text import BYTE_ORDER_MARK, TOO_DEEP, assigned_names, literal_value, source_lines
from .space import Config, SearchSpace, Value
from .syntax_tree import syntax_tree
from .text import digest_of
from .user_package import part_label

_RESERVED = {"SEARCH_SPACE", "CONSTRAINTS", "CONFIGS", "WORKLOADS"}


@dataclass(frozen=True)
class Kernel(ABC):
    """A tunable kernel: source text with a language and the kind of processor that it is written for.

    A config of its parameters is bound into the source, so that everything measured is plain source text.
    """

    language: Language
    target: Target
    source: str
    name: str = "kernel"

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that identify language, target and source."""
        return digest_of(f"{self.language}\0{self.target}\0{self.source}")

    @property
    def backend(self) -> str:
        """Language and target in one word: 'triton', 'tilelang_cpu'."""
        return backend(self.language, self.target)

    def runs_on(self, processor: Target) -> bool:
        """Return whether the kernel can be checked on a processor. It is timed only on its target."""
        return self.language.runs_on(self.target, processor)

    @property
    @abstractmethod
    def config(self) -> Config:
        """The current values of its parameters: numbers, strings and booleans."""

    @abstractmethod
    def bind(self, config: Mapping[str, Value]) -> Self:
        """Return the kernel with these parameters set. Raises `KernelError` for unknown names."""

    @property
    def declared_values(self) -> Mapping[str, Sequence[Value]]:
        """Return the declared values of each parameter; empty without a declaration."""
        return {}

    @property
    def declared_constraints(self) -> Sequence[str]:
        """Return the declared constraints, which are expressions over its parameters."""
        return ()

    @property
    def declared_configs(self) -> Sequence[Config]:
        """Return the declared configs to try first."""
        return ()

    def configs_in(self, space: SearchSpace) -> list[Config]:
        """Return the declared configs to try first that are members of a space."""
        declared = [
            Config({name: config[name] for name in space.names if name in config}) for config in self.declared_configs
        ]
        return [item for item in dict.fromkeys(declared) if item in space]

    def space(
        self, values: Mapping[str, Sequence[Value]], constraints: Sequence[str], sizes: Mapping[str, int] | None = None
    ) -> SearchSpace:
        """Return a space of its parameters. Defaults are the current values, or the first if those are not listed.

        Constraints may name `sizes` of the problem.
        """
        present = self.config
        defaults = {name: present[name] for name, choices in values.items() if present[name] in choices}
        return SearchSpace.of(values, constraints, sizes or {}, **defaults)


@dataclass(frozen=True)
class PythonKernel(Kernel):
    """A Python file that defines `ModelNew`.

    Parameters are module-level constants with upper-case names. `SEARCH_SPACE` (a dict of names to lists) and
    `CONSTRAINTS` (a list of expressions) may declare the values to try, and `CONFIGS` (a list of dicts) the configs to
    try first.
    """

    @classmethod
    def parse(cls, source: str, name: str = "kernel") -> Self:
        """Parse a kernel. Its imports determine language and target, and it must define `ModelNew`.

        A byte order mark at its beginning is left out. Raises `KernelError` for a syntax error, a missing ModelNew, or
        none of the known languages.
        """
        source = source.removeprefix(BYTE_ORDER_MARK)
        try:
            tree = syntax_tree(source)
        except (SyntaxError, ValueError) as error:
            raise KernelError(f"{name} is not valid Python: {error}") from None
        except (RecursionError, MemoryError):
            raise KernelError(f"{name} {TOO_DEEP}") from None
        if not any(isinstance(node, ast.ClassDef) and node.name == "ModelNew" for node in tree.body):
            raise KernelError(f"{name} defines no class ModelNew, which a kernel needs (`kernelwright docs kernels`)")
        found = recognize(_imports(tree))
        if found is None:
            known = " nor ".join(item.id for item in known_languages())
            raise KernelError(f"{name} imports neither {known}, so it is not a Triton or TileLang kernel")
        return cls(*found, source, name)

    @cached_property
    def _tree(self) -> ast.Module:
        return syntax_tree(self.source)

    @property
    def constants(self) -> dict[str, Any]:
        """The module-level constants with upper-case names and literal values, in order."""
        found = {}
        for name, node in self._assignments():
            with contextlib.suppress(ValueError, TypeError):
                found[name] = literal_value(node)
        return {name: value for name, value in found.items() if name not in _RESERVED}

    @property
    def computed(self) -> dict[str, str]:
        """The expressions of other such constants, which cannot be set: they are computed."""
        known = {*self.constants, *_RESERVED}
        return {name: ast.unparse(node) for name, node in self._assignments() if name not in known}

    @property
    def config(self) -> Config:
        """The present values of the constants that can be parameters: numbers, texts, truth values."""
        return Config({n: v for n, v in self.constants.items() if isinstance(v, int | float | str | bool)})

    @property
    def declared_values(self) -> dict[str, Sequence[Value]]:
        """Return the values to try that SEARCH_SPACE declares, by constant; empty without a declaration."""
        values = self._declared("SEARCH_SPACE", {})
        if not isinstance(values, dict) or not all(_is_list_of(v, int | float | str) for v in values.values()):
            raise SpaceError(f"{self.name}: SEARCH_SPACE must be a dict of lists of numbers or texts")
        present = self.config
        if unknown := [str(name) for name in values if name not in present]:
            raise SpaceError(
                f"{self.name}: SEARCH_SPACE names {', '.join(unknown)}, which are not constants of it that can be set; "
                f"these are {', '.join(present) or 'none'}"
            )
        return values

    @property
    def declared_constraints(self) -> Sequence[str]:
        """Return the expressions of CONSTRAINTS; empty if there are none."""
        constraints = self._declared("CONSTRAINTS", [])
        if not _is_list_of(constraints, str):
            raise SpaceError(f"{self.name}: CONSTRAINTS must be a list of texts")
        return tuple(constraints)

    @property
    def declared_configs(self) -> Sequence[Config]:
        """Return the configs of CONFIGS; empty if there are none. Names that are not constants are left out."""
        configs = self._declared("CONFIGS", [])
        if not _is_list_of(configs, dict):
            raise SpaceError(f"{self.name}: CONFIGS must be a list of dicts of constants")
        present = self.config
        return tuple(Config({name: item[name] for name in item if name in present}) for item in configs)

    def bind(self, config: Mapping[str, Value]) -> Self:
        """Return the kernel with these constants set. Raises `KernelError` for unknown names."""
        spans = dict(self._assignments())
        if unknown := sorted(set(config) - set(spans)):
            raise KernelError(f"{self.name} has no constant {', '.join(unknown)}; it has {', '.join(spans) or 'none'}")
        lines = source_lines(self.source, keepends=True)
        # From last to first, so that earlier positions stay valid.
        for name in sorted(config, key=lambda n: (spans[n].lineno, spans[n].col_offset), reverse=True):
            _replace(lines, spans[name], repr(config[name]))
        return replace(self, source="".join(lines))

    def _declared(self, name: str, absent: Any) -> Any:
        """Return the literal of a reserved name."""
        node = dict(self._assignments()).get(name)
        try:
            return absent if node is None else ast.literal_eval(node)
        except (ValueError, TypeError):
            raise SpaceError(f"{self.name}: {name} must be a literal, without calls and names") from None

    def _assignments(self) -> list[tuple[str, ast.expr]]:
        found, part = list[tuple[str, ast.expr]](), dict[str, int]()
        number = 0
        for node in self._tree.body:
            if part_label(node) is not None:
                number += 1
            for name, value in assigned_names(node):
                # Of a text of several files: a constant of two of them is none that could be set, and only the
                # parameters before the files declare.
                if name.isupper() and part.setdefault(name, number) == number and not (number and name in _RESERVED):
                    found.append((name, value))
        return found


def _is_list_of(values: object, kinds: Any) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(value, kinds) for value in values)


def _replace(lines: list[str], node: ast.expr, text: str) -> None:
    """Replace `node` by `text`; ast counts columns in UTF-8 bytes."""
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    head = lines[first].encode()[: node.col_offset].decode()
    tail = lines[last].encode()[node.end_col_offset :].decode()
    lines[first : last + 1] = [head + text + tail]
    # Keep the number of list entries, so that positions of earlier nodes stay valid.
    lines[first + 1 : first + 1] = [""] * (last - first)


def _imports(tree: ast.Module) -> set[str]:
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.add(node.module)
            modules.update(f"{node.module}.{alias.name}" for alias in node.names)
    return modules
