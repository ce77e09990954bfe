"""Shapes of matrix products, and the forms in which users name them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core import Config, OptionError
from .fields import from_fields, is_whole, missing_fields, unknown_fields

ROWS, COLUMNS = "T", "N"
"""The letters of a row-major and of a column-major operand, as BLAS and tune_gemm use them."""
LAYOUTS = tuple(a + b for a in (ROWS, COLUMNS) for b in (ROWS, COLUMNS))
_EXTENTS = ("M", "N", "K")
_MAJOR = ("rowMajorA", "rowMajorB")
_FORMS = "write [{M: 16, N: 1024, K: 1024}, ...] or [[[16, 32], 1024, 1024], ...]"


@dataclass(frozen=True, order=True)
class Shape:
    """C (m x n) = A (m x k) B (k x n), and how A and B lie in memory: 'TN' is A row-major, B column-major."""

    n: int
    k: int
    m: int
    layout: str = "TN"

    @property
    def flops(self) -> int:
        """Floating-point operations of the product."""
        return 2 * self.m * self.n * self.k

    @property
    def slug(self) -> str:
        """A name for files."""
        return f"m{self.m}_n{self.n}_k{self.k}_{self.layout.lower()}"

    def __str__(self) -> str:
        return f"M={self.m} N={self.n} K={self.k}"


@dataclass(frozen=True)
class Sizes:
    """The shapes that a user asked for."""

    shapes: tuple[Shape, ...]
    configs: Mapping[Shape, Config]
    """Those of a file that names a config for its shapes, as the output of an earlier run does."""
    refused: tuple[str, ...] = ()
    """Why entries were left out, one line each."""


def parse_shape(m: Any, n: Any, k: Any, layout: str) -> Shape:
    """Return a shape; raises `OptionError` for an extent that is no positive whole number, or an unknown layout."""
    for name, value in zip(_EXTENTS, (m, n, k), strict=True):
        if not is_whole(value) or value < 1:
            raise OptionError(f"{name}={value!r} is no size", "give a whole number from 1")
    if layout not in LAYOUTS:
        raise OptionError(f"layout {layout!r} is not known", f"use one of {', '.join(LAYOUTS)} (T is row-major)")
    return Shape(n=n, k=k, m=m, layout=layout)


def tables(entries: Iterable[Sequence[Any]], layout: str = "TN") -> list[Shape]:
    """Return the shapes of tuples (batch sizes, N, K), as aiter's scripts list them."""
    found = []
    for entry in entries:
        batches, n, k = entry
        found += [parse_shape(m, n, k, layout) for m in (batches if isinstance(batches, list | tuple) else [batches])]
    return list(dict.fromkeys(found))


def read_sizes(path: Path, layout: str = "TN") -> Sizes:
    """Return the shapes in a YAML or JSON file.

    Its entries are mappings with M, N, K, perhaps rowMajorA and rowMajorB, and perhaps a whole config (an output of
    tune_gemm is such a file), or triples of batch sizes, N and K. An entry that cannot be understood is left out, and
    `refused` says why. Raises `OptionError` for a file without any entry that can.
    """
    entries = _load(path)
    if not isinstance(entries, list) or not entries:
        raise OptionError(f"{path} is no list of sizes", _FORMS)
    shapes: dict[Shape, None] = {}
    configs: dict[Shape, Config] = {}
    refused = []
    for number, entry in enumerate(entries, start=1):
        try:
            for shape, config in _parse(entry, layout):
                shapes[shape] = None
                if config is not None:
                    configs[shape] = config
        except OptionError as error:
            refused.append(f"{path}, entry {number}: {error}")
    if not shapes:
        raise OptionError(f"{path} has no usable size: {refused[0]}")
    return Sizes(tuple(shapes), configs, tuple(refused))


def _load(path: Path) -> Any:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"cannot read {path}: {error}", "give a YAML or JSON file of sizes") from None
    if path.suffix == ".json":
        try:
            return json.loads(text)
        except ValueError as error:
            raise OptionError(f"{path} is no valid JSON: {error}", _FORMS) from None
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise OptionError(f"{path} is no valid YAML: {' '.join(str(error).split())}", _FORMS) from None


def _parse(entry: Any, layout: str) -> list[tuple[Shape, Config | None]]:
    if isinstance(entry, list) and len(entry) == 3:
        return [(shape, None) for shape in tables([entry], layout)]
    if not isinstance(entry, dict):
        raise OptionError(f"{entry!r} is no size", _FORMS)
    if lacking := [name for name in _EXTENTS if name not in entry]:
        raise OptionError(f"{', '.join(lacking)} is missing", _FORMS)
    fields = {name: value for name, value in entry.items() if name not in (*_EXTENTS, *_MAJOR)}
    if unknown := unknown_fields(fields):
        raise OptionError(f"unknown {', '.join(map(str, unknown))}", "leave it out")
    # tune_gemm's sizes name both or none.
    major = "".join(str(entry.get(name, given)) for name, given in zip(_MAJOR, layout, strict=True))
    batches = entry["M"] if isinstance(entry["M"], list) else [entry["M"]]
    shapes = [parse_shape(m, entry["N"], entry["K"], major) for m in batches]
    if not fields:
        return [(shape, None) for shape in shapes]
    if lacking := missing_fields(fields):
        raise OptionError(f"half a config, without {', '.join(lacking)}", "give all of it, or the size alone")
    return [(shape, from_fields(fields)) for shape in shapes]
