"""The table of a deployed operator: which kernel serves which sizes."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core import KernelError
from ..core.dynamic_size import FreeSize
from ..core.quotation import plain
from ..core.source_text import source_lines
from ..core.syntax_tree import syntax_tree
from .description import OperatorDescription
from .launches import is_repeatable
from .source import MeasuredKernel

FIGURES = ("speedup_ratio", "interval", "latency_ms", "reference_ms", "max_abs_error", "samples", "seeds", "precision")
"""Figures of the evidence that the table repeats."""


@dataclass(frozen=True)
class Entry:
    """One kernel of the table."""

    name: str
    """Name of the kernel's module."""
    measured: MeasuredKernel
    description: OperatorDescription
    serves: FreeSize | None
    """The free size with the range that this kernel serves."""

    def to_json(self) -> dict[str, Any]:
        """Return the entry as table.json has it."""
        free = self.serves
        evidence = self.measured.evidence
        return {
            "kernel": self.name,
            "language": str(self.measured.kernel.language),
            "device": self.measured.device,
            "serves": None if free is None else {"size": free.name, "from": free.low, "to": free.high},
            "arguments": list(self.description.arguments),
            "sizes": self.measured.sizes,
            "repeatable": is_repeatable(self.measured.kernel.source),
            "deterministic": self.is_deterministic,
            "measured": {name: evidence[name] for name in FIGURES if name in evidence},
            "environment": environment_of(evidence),
        }

    @property
    def is_deterministic(self) -> bool:
        """Whether the kernel adds in a fixed order: its text has no atomics."""
        return "atomic" not in self.measured.kernel.source

    @property
    def in_words(self) -> str:
        """'1 <= tokens <= 64: x float32[tokens, 512]'."""
        shown = [
            f"{name} {_tensor(*item)}" if isinstance(item, list) else f"{name}={item}"
            for name, item in zip(self.description.names, self.description.arguments, strict=True)
        ]
        free = f"{self.serves.low} <= {self.serves.name} <= {self.serves.high}: " if self.serves else ""
        return free + ", ".join(shown)


def _tensor(dtype: str, sizes: Sequence[Any], order: Sequence[int] = ()) -> str:
    """'float16[M, 64]', with the order of dimensions in memory where they are not in this one."""
    return f"{dtype}[{', '.join(map(str, sizes))}]" + (f" stored as {list(order)}" if order else "")


def environment_of(evidence: Mapping[str, Any]) -> dict[str, str]:
    """Return device and versions of the evidence."""
    known = ("device", "python", "torch", "triton", "tilelang", "cuda", "hip", "threads")
    return {name: " ".join(plain(str(evidence[name])).split()) for name in known if name in evidence}


def entries_of(
    short: str, kernels: Sequence[MeasuredKernel], descriptions: Sequence[OperatorDescription], free: FreeSize | None
) -> list[Entry]:
    """Return the table's entries; with a free size each serves the values to which it is the nearest one.

    Near means a small ratio: between kernels measured at 16 and 256 the first serves up to 64. Raises `KernelError` for
    kernels of different operators or constants, and for two that serve the same sizes.
    """
    first = descriptions[0]
    for item, description in zip(kernels[1:], descriptions[1:], strict=True):
        if description.signature != first.signature or item.problem.source != kernels[0].problem.source:
            raise KernelError(f"{item.path} and {kernels[0].path} are of different problems; deploy each by itself")
    for pair in itertools.combinations(zip(kernels, descriptions, strict=True), 2):
        _require_same_constants(*pair)
    if free is not None:
        for item in kernels:
            if item.evidence.get("shape_specialised") and item.serves is None:
                raise KernelError(f"{item.path} is right at its own sizes only, so {free.name} cannot be free")
    entries = [
        Entry(f"{short}_{number}", item, description, free)
        for number, (item, description) in enumerate(zip(kernels, descriptions, strict=True))
    ]
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(repr((entry.measured.device, entry.description.arguments)), []).append(entry)
    served = [found for group in groups.values() for found in _shared(group, free)]
    return sorted(served, key=_low)


def _require_same_constants(
    one: tuple[MeasuredKernel, OperatorDescription], other: tuple[MeasuredKernel, OperatorDescription]
) -> None:
    """Raise `KernelError` if the shapes of weights do not determine the reference's constants."""
    (item, description), (earlier, known) = other, one
    if description.of_weights != known.of_weights:
        return
    if description.constructor != known.constructor or item.problem.read_constants != earlier.problem.read_constants:
        raise KernelError(f"{item.path} and {earlier.path} have other constants; deploy each by itself")


def _shared(group: Sequence[Entry], free: FreeSize | None) -> list[Entry]:
    """Share a range among kernels that differ in nothing but the value that they were measured at."""
    ordered = sorted(group, key=lambda entry: entry.description.value or 0)
    values = [entry.description.value for entry in ordered]
    for place, entry in enumerate(ordered[1:]):
        if free is None or values[place] == values[place + 1]:
            other = ordered[place].measured.path
            raise KernelError(f"{other} and {entry.measured.path} serve the same sizes; deploy the faster one")
    if free is None:
        return ordered
    if all(entry.measured.serves is not None for entry in ordered):
        return _as_stated(ordered)
    found: list[Entry] = []
    low = free.low
    for place, entry in enumerate(ordered):
        last = place == len(ordered) - 1
        here, there = values[place] or 1, values[place + 1] or 1 if not last else 1
        high = free.high if last else min(free.high, math.isqrt(here * there))
        if low <= high:
            if found and _code(found[-1]) == _code(entry):  # one kernel for both
                found[-1] = replace(found[-1], serves=FreeSize(free.name, _low(found[-1]), high))
            else:
                found.append(replace(entry, serves=FreeSize(free.name, low, high)))
            low = high + 1
    return found


def _as_stated(ordered: Sequence[Entry]) -> list[Entry]:
    """Return the entries with the parts of the range that they state. Raises `KernelError` for parts that overlap."""
    found = sorted((replace(entry, serves=entry.measured.serves) for entry in ordered), key=_low)
    for entry, other in itertools.pairwise(found):
        if entry.serves is not None and other.serves is not None and other.serves.low <= entry.serves.high:
            raise KernelError(
                f"{entry.measured.path} and {other.measured.path} serve the same sizes; deploy one of them"
            )
    return found


def _low(entry: Entry) -> int:
    return entry.serves.low if entry.serves else 0


def _code(entry: Entry) -> str:
    """Return a kernel's text without the evidence."""
    source = entry.measured.kernel.source
    tree = syntax_tree(source)
    end = tree.body[0].end_lineno or 0 if tree.body and ast.get_docstring(tree) is not None else 0
    return "\n".join(source_lines(source)[end:]).strip()


def table_of(name: str, entries: Sequence[Entry], visible: bool) -> dict[str, Any]:
    """Return table.json of an operator, whose kernels torch.compile may see if they are `visible`."""
    description = entries[0].description
    tolerances = entries[0].measured.problem.tolerances
    return {
        "name": name,
        "weights": list(description.weights),
        "returns_tuple": description.returns_tuple,
        "reference_has_own_tensors": any(item.description.reference_has_own_tensors for item in entries),
        "visible": visible,
        "tolerances": {dtype: [item.absolute, item.relative, item.matched] for dtype, item in tolerances.items()},
        "kernels": [entry.to_json() for entry in entries],
    }
