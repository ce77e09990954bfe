"""The forms in which users name shapes: files, tuples, options."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core import Config, OptionError
from ...core.files import read_text
from ...core.text import data_of
from .fields import from_fields, missing_fields, unknown_fields
from .shapes import COLUMNS, EXTENTS, ROUTING, ROWS, Shape, parse_shape

_MAJOR = ("rowMajorA", "rowMajorB")
_FORMS = "write [{M: 16, N: 1024, K: 1024}, ...] or [[[16, 32], 1024, 1024], ...]"


@dataclass(frozen=True)
class Sizes:
    """The shapes that a user requested."""

    shapes: tuple[Shape, ...]
    configs: Mapping[Shape, Config]
    """Configs of a file by shape, as in the output of an earlier run."""
    refused: tuple[str, ...] = ()
    """Why entries were left out, one line each."""


@dataclass(frozen=True)
class Routing:
    """Experts of shapes that name none; None if each shape must name its own."""

    experts: int | None = None
    top_k: int | None = None

    def of(self, entry: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return the experts of an entry, and how many of them a token takes; raises `OptionError` for none."""
        found = entry.get("E", self.experts), entry.get("TOP_K", self.top_k)
        if lacking := [name for name, value in zip(ROUTING, found, strict=True) if value is None]:
            hint = "give them in the file, or as `experts` and `top_k`"
            raise OptionError(f"{' and '.join(lacking)} {'are' if lacking[1:] else 'is'} missing", hint)
        return found


def tables(entries: Iterable[Sequence[Any]], layout: str = "TN", routing: Routing | None = None) -> list[Shape]:
    """Return the shapes of tuples (batch sizes, N, K), as aiter's scripts list them."""
    found = []
    for entry in entries:
        batches, n, k = entry
        experts = routing.of({}) if routing else (0, 0)
        found += [parse_shape(m, n, k, layout, *experts) for m in _several(batches)]
    return list(dict.fromkeys(found))


def read_sizes(path: Path, layout: str = "TN", routing: Routing | None = None) -> Sizes:
    """Return the shapes in a YAML or JSON file; with `routing`, of a mixture of experts.

    Its entries are mappings with M, N, K, perhaps rowMajorA and rowMajorB, and perhaps a whole config (an output of
    tune_gemm is such a file), or triples of batch sizes, N and K; with `routing` mappings may have E and TOP_K. An
    entry that cannot be understood is left out, and `refused` says why. Raises `OptionError` for a file without any
    entry that can.
    """
    entries = _load(path)
    if not isinstance(entries, list) or not entries:
        raise OptionError(f"{path} is not a list of sizes", _FORMS)
    shapes: dict[Shape, None] = {}
    configs: dict[Shape, Config] = {}
    refused = []
    for number, entry in enumerate(entries, start=1):
        try:
            for shape, config in _parse(entry, layout, routing):
                shapes[shape] = None
                if config is not None:
                    configs[shape] = config
        except OptionError as error:
            refused.append(f"{path}, entry {number}: {error}")
    if not shapes:
        raise OptionError(f"{path} has no usable size: {refused[0]}")
    return Sizes(tuple(shapes), configs, tuple(refused))


def _load(path: Path) -> Any:
    with data_of(path, OptionError, "give a YAML or JSON file of sizes"):
        text = read_text(path)
    if path.suffix == ".json":
        with data_of(path, OptionError, _FORMS, "is not valid JSON"):
            return json.loads(text)
    import yaml

    with data_of(path, OptionError, _FORMS, "is not valid YAML"):
        return yaml.safe_load(text)


def _parse(entry: Any, layout: str, routing: Routing | None) -> list[tuple[Shape, Config | None]]:
    if isinstance(entry, list) and len(entry) == 3:
        return [(shape, None) for shape in tables([entry], layout, routing)]
    if not isinstance(entry, dict):
        raise OptionError(f"{entry!r} is not a size", _FORMS)
    if lacking := [name for name in EXTENTS if name not in entry]:
        raise OptionError(f"{', '.join(lacking)} is missing", _FORMS)
    known = (*EXTENTS, *_MAJOR, *(ROUTING if routing else ()))
    fields = {name: value for name, value in entry.items() if name not in known}
    if unknown := unknown_fields(fields):
        raise OptionError(f"unknown {', '.join(map(str, unknown))}", "leave it out")
    # tune_gemm's sizes name both or none.
    major = "".join(_letter(entry, name, given) for name, given in zip(_MAJOR, layout, strict=True))
    experts = routing.of(entry) if routing else (0, 0)
    shapes = [parse_shape(m, entry["N"], entry["K"], major, *experts) for m in _several(entry["M"])]
    if not fields:
        return [(shape, None) for shape in shapes]
    if lacking := missing_fields(fields):
        raise OptionError(f"half a config, without {', '.join(lacking)}", "give all of it, or the size alone")
    return [(shape, from_fields(fields)) for shape in shapes]


def _letter(entry: Mapping[str, Any], name: str, given: str) -> str:
    """Return the layout of an operand: the entry's, otherwise `given`."""
    found = entry.get(name, given)
    if found not in (ROWS, COLUMNS):
        raise OptionError(f"{name}={found!r} is not a layout", f"{ROWS} is row-major, {COLUMNS} column-major")
    return str(found)


def _several(batches: Any) -> Sequence[Any]:
    if not isinstance(batches, list | tuple):
        return [batches]
    if not batches:
        raise OptionError("M=[] is not a size", "give at least one")
    return batches
