"""Recordings as CSV: the parameters, then time_ms, then optional columns.

A value is an integer, a number, true or false, otherwise a string. An empty time is a failure. After `time_ms` may
follow, in any order, `compile_s` (seconds), `status` (a value of `core.Status`), and `samples_ms` (single timings,
separated by spaces).
"""

from __future__ import annotations

import csv
import io
import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path

from ..core import Config, Evaluation, OptionError, SpaceError, Status, Value
from .files import write_text
from .recording import RecordedResult, Recording, Results, collect, finite, integer

TIME = "time_ms"
OPTIONAL = ("compile_s", "status", "samples_ms")

_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")
_TRUTH = {"true": True, "false": False}


class _Values(dict[str, Value]):
    """The value of each text, parsed once: a table repeats few of them very often.

    Raises `OverflowError` with the text of a number beyond a float's range.
    """

    def __missing__(self, text: str) -> Value:
        value = _value(text)
        if not finite(value):
            raise OverflowError(text)
        self[text] = value
        return value


def parse_csv(text: str, path: Path) -> Results:
    """Return the results in a CSV. Raises `OptionError` for another table, `SpaceError` for a bad row, with the
    line."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        names, extra = _header(next(reader), path)
        results: dict[Config, RecordedResult] = {}
        lines: dict[Config, int] = {}
        values = _Values()
        width = len(names) + 1 + len(extra)
        for cells in reader:
            if not cells:
                continue
            where = f"{path}, line {reader.line_num}"
            if len(cells) != width:
                raise SpaceError(f"{where} has {len(cells)} cells instead of {width}; complete or remove that line")
            try:
                chosen = [values[cell] for cell in cells[: len(names)]]
            except OverflowError as error:
                raise SpaceError(f"{where}: {reprlib.repr(str(error))} is too large a number; fix it") from None
            if "" in chosen:
                raise SpaceError(f"{where} has no {names[chosen.index('')]}; fill the cell or remove that line")
            config = Config(zip(names, chosen, strict=True))
            if config in lines:
                raise SpaceError(f"{where} repeats the config of line {lines[config]}; remove one of the two")
            lines[config] = reader.line_num
            results[config] = _result(cells[len(names)], dict(zip(extra, cells[len(names) + 1 :], strict=True)), where)
    except csv.Error as error:
        raise OptionError(f"{path}, line {reader.line_num} is not CSV: {error}; fix or remove that line") from None
    return results


def _header(cells: Sequence[str], path: Path) -> tuple[list[str], list[str]]:
    header = [cell.strip() for cell in cells]
    if TIME not in header:
        raise OptionError(
            f"{path} is not a recording: its first line names no column {TIME}; give a CSV with that column, "
            "a kernelwright journal, a Kernel Tuner cache or T4 results"
        )
    names, extra = header[: header.index(TIME)], header[header.index(TIME) + 1 :]
    if not names:
        raise SpaceError(f"{path}, line 1 names no parameters; put one column each before {TIME}")
    if unknown := [name for name in extra if name not in OPTIONAL]:
        raise SpaceError(
            f"{path}, line 1: column {unknown[0]!r} stands after {TIME}; put parameters before it, "
            f"after it only {', '.join(OPTIONAL)}"
        )
    if twice := [name for name in header if header.count(name) > 1]:
        raise SpaceError(f"{path}, line 1 names the column {twice[0]} twice; remove one")
    return names, extra


def _result(time: str, extra: Mapping[str, str], where: str) -> RecordedResult:
    time_ms = _positive(time, TIME, where) if time.strip() else None
    name = extra.get("status", "").strip() or (Status.OK if time_ms is not None else Status.RUNTIME_ERROR)
    try:
        status = Status(name)
    except ValueError:
        raise SpaceError(f"{where}: status {name!r} is unknown; use one of {', '.join(Status)}") from None
    if (status is Status.OK) != (time_ms is not None):
        raise SpaceError(f"{where}: status {status} {'without' if time_ms is None else 'with'} a time; fix one of them")
    compile_s = None
    if text := extra.get("compile_s", "").strip():
        compile_s = 0.0 if _number(text) == 0 else _positive(text, "compile_s", where)
    samples = tuple(_positive(text, "samples_ms", where) for text in extra.get("samples_ms", "").split())
    return RecordedResult(time_ms, status, compile_s, samples)


def _positive(text: str, what: str, where: str) -> float:
    number = _number(text.strip())
    if number is None or not isfinite(number) or number <= 0:
        hint = "; leave the cell of a failure empty" if what == TIME else ""
        raise SpaceError(f"{where}: {what} is {reprlib.repr(text)}, which is not a number above 0{hint}")
    return number


def _number(text: str) -> float | None:
    return float(text) if _NUMBER.match(text) else None


def _value(cell: str) -> Value:
    text = cell.strip()
    if _INTEGER.match(text):
        return integer(text)
    if _NUMBER.match(text):
        return float(text)
    return _TRUTH.get(text.lower(), text)


def write_csv(path: Path, source: Recording | Iterable[Evaluation], names: Sequence[str] = ()) -> None:
    """Write a recording, or the evaluations of a live search, as a CSV that `read_recording` reads back the same.

    `names` are the parameters, by default all of the first config. Raises `SpaceError` where `collect` does and for
    names and values that a CSV cannot represent, and `ResultsError` for a file that cannot be written.
    """
    results = collect(source, names)
    columns = list(names) or list(next(iter(results)))
    if refused := [name for name in columns if name in (TIME, *OPTIONAL) or not _stays(name)]:
        raise SpaceError(f"a CSV cannot hold a parameter of the name {refused[0]!r}; write T4 instead")
    sampled = any(result.samples_ms for result in results.values())
    extra = OPTIONAL if sampled else OPTIONAL[:-1]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*columns, TIME, *extra])
    for config, result in results.items():
        cells = [*(_cell(name, config[name]) for name in columns), *_metrics(result)]
        writer.writerow(cells if sampled else cells[:-1])
    write_text(path, text.getvalue())


def _cell(name: str, value: Value) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    back = _value(text)
    if not _stays(text) or type(back) is not type(value) or back != value:
        raise SpaceError(f"a CSV cannot hold {name}={value!r}, it would read as {back!r}; write T4 instead")
    return text


def _stays(text: str) -> bool:
    """Return whether a text reads back the same: UTF-8 has no lone surrogates, and a reader strips blanks."""
    return bool(text) and text == text.encode(errors="ignore").decode().strip() and not set(text) & {"\r", "\0"}


def _metrics(result: RecordedResult) -> list[str]:
    time, compile_s = ("" if x is None else repr(float(x)) for x in (result.time_ms, result.compile_s))
    return [time, compile_s, str(result.status), " ".join(repr(float(sample)) for sample in result.samples_ms)]
