"""auto-scheduler.cfg, as the seed's tool reads it: [Env], [SearchSpace], [SearchStrategy]."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ...core import OptionError
from ...core.files import read_text
from ...core.syntax_tree import literal
from ...core.text import first_line
from .. import catalogue

THREADS = 1024
"""Maximum number of threads of a block."""
_SECTION = re.compile(r"\[\s*(\w+)\s*\]")
_ENTRY = re.compile(r"(\w+)\s*[=:]\s*(.*)")
_ENV = ("iree_bin", "input_file", "output_file")  # IREE's tools are those of its Python package, wherever iree_bin is
_STRATEGY = ("tuner", "n_trial")
_TILES = ("tile_m", "tile_n", "tile_k")
_BLOCK = ("block_dim_x", "block_dim_y", "block_dim_z")
_SPACE = (
    *_TILES, *_BLOCK, "pipeline_depth",
    # Not the seed's: what else a derived space has.
    "tile_h", "vector_m", "vector_n", "vector_k", "thread_n", "shared", "padded",
)  # fmt: skip
_KEYS = {"Env": _ENV, "SearchSpace": _SPACE, "SearchStrategy": _STRATEGY}
_ZERO_TOO = ("shared", "padded", "pipeline_depth")
_TUNERS = {
    "xgboosttuner": "xgboost", "xgbtuner": "xgboost",
    "gridtuner": "grid", "gridsearchtuner": "grid",
    "randomtuner": "random",
}  # fmt: skip
"""The seed's names and those of the tool that its tuners come from, in lower case."""


class _Entry(NamedTuple):
    section: str
    key: str
    text: str
    line: int


@dataclass(frozen=True)
class SchedulerConfig:
    """Settings of the file; missing ones are None."""

    input_file: Path | None = None
    """The paths are relative to the file's folder."""
    output_file: Path | None = None
    ranges: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    tuner: str | None = None
    """By our name."""
    trials: int | None = None


def read_cfg(path: Path) -> SchedulerConfig:
    """Return the settings of a file. If it repeats a key, the last value counts.

    Raises `OptionError` with the key and its line for what it must not say.
    """
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "no text"
        raise OptionError(f"cannot read {path}: {why}", "give a file such as auto-scheduler.cfg") from None
    entries = {(item.section, item.key): item for item in _entries(text, path)}
    ranges = {item.key: _range(item, path) for item in entries.values() if item.section == "SearchSpace"}
    _check_block(ranges, entries, path)

    def file_of(key: str) -> Path | None:
        entry = entries.get(("Env", key))
        return path.parent / entry.text if entry and entry.text else None

    tuner, trials = entries.get(("SearchStrategy", "tuner")), entries.get(("SearchStrategy", "n_trial"))
    return SchedulerConfig(
        file_of("input_file"),
        file_of("output_file"),
        ranges,
        _tuner(tuner, path) if tuner else None,
        _trials(trials, path) if trials else None,
    )


def _entries(text: str, path: Path) -> Iterator[_Entry]:
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        content = re.split(r"(?:^|\s)[#;]", line, maxsplit=1)[0].strip()
        if not content:
            continue
        if found := _SECTION.fullmatch(content):
            section = found[1]
            if section not in _KEYS:
                raise OptionError(f"{path}, line {number}: there is no section [{section}]", f"use {_named(_KEYS)}")
        elif found := _ENTRY.fullmatch(content):
            if not section:
                raise OptionError(f"{path}, line {number}: {found[1]} stands in no section", "begin with [Env]")
            if found[1] not in _KEYS[section]:
                known = ", ".join(_KEYS[section])
                raise OptionError(f"{path}, line {number}: [{section}] has no key {found[1]}", f"use {known}")
            yield _Entry(section, found[1], found[2].strip(), number)
        else:
            shown = repr(first_line(content, 80))
            raise OptionError(f"{path}, line {number}: {shown} is not an entry", "write key = value")


def _named(sections: Mapping[str, object]) -> str:
    return ", ".join(f"[{name}]" for name in sections)


def _range(entry: _Entry, path: Path) -> tuple[int, ...]:
    try:
        values = literal(entry.text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        values = None
    numbers = values if isinstance(values, list | tuple) else [values]
    least = 0 if entry.key in _ZERO_TOO else 1
    good = all(isinstance(number, int) and not isinstance(number, bool) and number >= least for number in numbers)
    if not numbers or not good:
        raise OptionError(
            f"{path}, line {entry.line}: {entry.key} = {entry.text}", f"write whole numbers from {least}: [32, 64]"
        )
    return tuple(dict.fromkeys(numbers))


def _check_block(ranges: Mapping[str, tuple[int, ...]], entries: Mapping[tuple[str, str], _Entry], path: Path) -> None:
    """Require one layer of threads, and a block that can be."""
    if ranges.get("block_dim_z", (1,)) != (1,):
        line = entries["SearchSpace", "block_dim_z"].line
        raise OptionError(f"{path}, line {line}: block_dim_z must be 1", "write block_dim_z = [1]")
    given = [name for name in _BLOCK if name in ranges]
    least = 1
    for name in given:
        least *= min(ranges[name])
    if least > THREADS:
        line = entries["SearchSpace", given[-1]].line
        raise OptionError(
            f"{path}, line {line}: the smallest block of {' x '.join(given)} has {least} threads",
            f"a block has {THREADS} at most; give smaller values",
        )


def _tuner(entry: _Entry, path: Path) -> str:
    name = _TUNERS.get(entry.text.lower(), entry.text)
    try:
        catalogue.check(name)
    except OptionError as error:
        seeds = "XGBoostTuner, GridTuner and RandomTuner are known too"
        raise OptionError(f"{path}, line {entry.line}: tuner = {entry.text}: {error.message}", seeds) from None
    return name


def _trials(entry: _Entry, path: Path) -> int:
    if not entry.text.isdecimal() or int(entry.text) < 1:
        raise OptionError(f"{path}, line {entry.line}: n_trial = {entry.text}", "write a whole number from 1")
    return int(entry.text)
