"""Problems that are PyTorch references in the KernelBench convention."""

from __future__ import annotations

import ast
import contextlib
import re
import symtable
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from .errors import ProblemError, SpaceError
from .expressions import Expression
from .problem import DEFAULT_WORKLOAD, TOLERANCES, Problem
from .source_text import BYTE_ORDER_MARK, TOO_DEEP
from .syntax_tree import syntax_tree
from .text import digest_of
from .user_package import UserPackage

_NEEDED = ("Model", "get_inputs", "get_init_inputs")
_EXERCISE = re.compile(r"(level\d+|gemm|attention)/")
"""How ids of benchmarks' problems begin."""
MATCHED = "MATCHED"
"""Name of the constant with the fraction of a result's elements that must be within the tolerance."""


@dataclass(frozen=True)
class TorchProblem(Problem):
    """A reference `Model` with `get_inputs()` (arguments of forward) and `get_init_inputs()` (of the constructor).

    Sizes are values for module constants of the source, set before the inputs are made.
    """

    source: str
    path: str = ""
    package: UserPackage | None = None
    """For a user's function: where reference, inputs and kernels are imported from."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", self.source.removeprefix(BYTE_ORDER_MARK))
        try:
            tree = syntax_tree(self.source)
        except (SyntaxError, ValueError) as error:
            raise ProblemError(f"problem {self.name} is not valid Python: {error}") from None
        except (RecursionError, MemoryError):
            raise ProblemError(f"problem {self.name} {TOO_DEEP}") from None
        defined = {n.name for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
        if missing := [name for name in _NEEDED if name not in defined]:
            raise ProblemError(
                f"problem {self.name} lacks {', '.join(missing)}; a problem file defines Model, get_inputs() "
                "and get_init_inputs()"
            )
        if (share := self._matched()) is not None:
            tolerances = {dtype: tolerance._replace(matched=share) for dtype, tolerance in self.tolerances.items()}
            object.__setattr__(self, "tolerances", tolerances)

    @classmethod
    def of(cls, problem: Problem) -> TorchProblem:
        """Return the problem as a `TorchProblem`. Raises `ProblemError` for any other kind."""
        if not isinstance(problem, TorchProblem):
            raise ProblemError(
                f"problem {problem.id} has no PyTorch reference, which this needs; use an evaluator made for its kind"
            )
        return problem

    @property
    def is_own(self) -> bool:
        """Whether it is a module of the user's, or recorded of one: no problem of KernelBench, no shipped operator.

        Of a function in a package only what a change adds is judged, so there the rule for exercises serves.
        """
        return self.package is None and _EXERCISE.match(self.id) is None

    @cached_property
    def digest(self) -> str:
        """Digest of the reference's source, and of tolerances that are not the usual ones."""
        allowed = {dtype: tuple(tolerance[:2]) for dtype, tolerance in self.tolerances.items()}
        usual = {dtype: tuple(tolerance[:2]) for dtype, tolerance in TOLERANCES.items()}
        return digest_of(self.source if allowed == usual else f"{self.source}\0{sorted(allowed.items())}")

    @property
    def has_free_sizes(self) -> bool:
        """Whether the batch size may be changed. Recorded inputs are consistent at recorded sizes only."""
        return True

    def files_at(self, sizes: Mapping[str, Any]) -> Mapping[str, Path]:
        """Return the files that the source reads at these sizes, by the path relative to its own folder."""
        return {}

    @cached_property
    def workloads(self) -> Mapping[str, Mapping[str, Any]]:
        """The workloads that the file declares in WORKLOADS, and 'default'."""
        declared = self.constants.get("WORKLOADS", {})
        if not isinstance(declared, dict) or not all(isinstance(sizes, dict) for sizes in declared.values()):
            raise ProblemError(f"problem {self.name}: WORKLOADS must be a dict of dicts of sizes, all literals")
        return {DEFAULT_WORKLOAD: {}, **declared}

    @cached_property
    def constants(self) -> dict[str, Any]:
        """Constants of the module: literal values, None for other expressions."""
        found: dict[str, Any] = {}
        for name, node in _assignments(self.source):
            try:
                found[name] = ast.literal_eval(node)
            except (ValueError, TypeError):
                found[name] = None
        return found

    @cached_property
    def integers(self) -> Mapping[str, int]:
        """Integer constants of the module, as literals or by arithmetic, with the values that the sizes set.

        As in the loaded module, a constant that is computed from another one does not change if a size sets that one.
        """
        found: dict[str, Any] = {}
        for name, node in _assignments(self.source):
            found.pop(name, None)
            try:
                value = Expression(ast.unparse(node))(found)
            except (SpaceError, ArithmeticError, MemoryError, RecursionError):
                continue
            if _whole(value):
                found[name] = value
        found = {name: value for name, value in found.items() if name not in self.sizes}
        return found | {name: value for name, value in self.sizes.items() if _whole(value)}

    @property
    def read_constants(self) -> dict[str, Any]:
        """Constants of the problem's file that its Model reads while it computes, with their values."""
        table = symtable.symtable(self.source, "reference", "exec")
        parts = {part.get_name(): set(_globals_of(part)) for part in table.get_children()}
        top = {item.get_name() for item in table.get_symbols() if item.is_referenced()}
        idle = {"get_inputs", "get_init_inputs"}
        while idle:  # and the functions that these alone call
            for name in idle:
                parts.pop(name, None)
            read = set[str]().union(*parts.values())
            idle = parts.keys() - read - top - {"Model"}
        return {name: value for name, value in {**self.constants, **self.sizes}.items() if name in read}

    def _matched(self) -> float | None:
        """Return the fraction of a result's elements that must be within the tolerance, None if the file sets none.

        MATCHED may be an expression over other constants: a computation in fp8 at one size may be in bf16 at another.
        """
        texts = [ast.unparse(node) for name, node in _assignments(self.source) if name == MATCHED]
        if not texts:
            return None
        share: object = None
        with contextlib.suppress(SpaceError, ValueError, ArithmeticError):
            share = Expression(texts[-1])({**self.constants, **self.integers, **self.sizes})
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
            raise ProblemError(
                f"problem {self.name}: MATCHED = {texts[-1]} is not a share; give a number above 0, at most 1, or an "
                "expression over constants of the file that is one"
            )
        return float(share)

    def resized(self, workload: str, sizes: Mapping[str, Any]) -> Self:
        """Return the problem with these constants set. Raises `ProblemError` for unknown constants."""
        if unknown := sorted(set(sizes) - (set(self.constants) - {MATCHED})):
            raise ProblemError(
                f"problem {self.id} has no constant {', '.join(unknown)}; it has "
                f"{', '.join(name for name in self.constants if name not in ('WORKLOADS', MATCHED)) or 'none'}"
            )
        return replace(self, workload=workload, sizes=sizes)


def _assignments(source: str) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that the module assigns, with their expressions, in order. Tuples are split."""
    for node in syntax_tree(source).body:
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id, node.value
            elif isinstance(target, ast.Tuple):
                parts = node.value.elts if isinstance(node.value, ast.Tuple | ast.List) else []
                values = parts if len(parts) == len(target.elts) else [node.value] * len(target.elts)
                for name, value in zip(target.elts, values, strict=True):
                    if isinstance(name, ast.Name):
                        yield name.id, value


def _globals_of(scope: symtable.SymbolTable) -> Iterator[str]:
    """Yield the module's names that functions of a scope read."""
    if scope.get_type() != "class":  # what a class reads, it reads before sizes are set
        yield from (item.get_name() for item in scope.get_symbols() if item.is_referenced() and item.is_global())
    for inner in scope.get_children():
        yield from _globals_of(inner)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
