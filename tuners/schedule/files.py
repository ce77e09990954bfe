"""Schedules as files: a table to read, and JSON. Both load again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...core import Config, ScheduleError, Value
from ...core.files import read_text, write_whole
from ...core.text import BAD_DATA
from .graph import Graph, LoopOperation, Schedule, order_and_stage
from .reservation import Reservations
from .space import INTERVAL, ScheduleSpace

_COLUMNS = ("Name", "Type", "Sort Key", "Cycle", "Cycle mod II", "Stage", "Users")
_NUMBER = re.compile(r"-?\d+")


def dump_schedule(
    graph: Graph,
    schedule: Schedule,
    initiation_interval: int,
    dump_file: Path,
    tiles: Mapping[str, Value] | None = None,
) -> None:
    """Write a schedule as text: interval, stages, reservation table, and a row for each operation.

    The sort key is the operation's place in the pipelined body; the users are those that read its result.
    """
    orders, stages = order_and_stage(graph, schedule, initiation_interval)
    table = Reservations.of(graph, schedule, initiation_interval)
    lines = [f"Initiation Interval: {initiation_interval}", f"Number of Stages: {max(stages) + 1}"]
    lines += [f"Tiles: {Config(tiles)}"] if tiles else []
    widths = [max(5, len(name)) for name in table.resources]
    lines += ["", "Resource Reservation Table (units in use):"]
    head = (f"{name:>{width}}" for name, width in zip(table.resources, widths, strict=True))
    lines.append(" | ".join(["Cycle", *head]))
    for row, used in enumerate(table.table.tolist()):
        cells = (f"{units:>{width}}" for units, width in zip(used, widths, strict=True))
        lines.append(" | ".join([f"{row:>5}", *cells]))
    rows = [
        (operation.name, _kind(operation), order, cycle, cycle % initiation_interval, stage, _users(graph, operation))
        for operation, order, stage in zip(graph.operations, orders, stages, strict=True)
        for cycle in [schedule[operation.name]]
    ]
    rows.sort(key=lambda row: row[2])
    texts = [_COLUMNS, *(tuple(map(str, row)) for row in rows)]
    columns = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines += ["", "Schedule:"]
    lines += [" | ".join(f"{t:<{w}}" for t, w in zip(text, columns, strict=True)).rstrip() for text in texts]
    write_whole(dump_file, "\n".join(lines) + "\n")


def _kind(operation: LoopOperation) -> str:
    """Return the resource that it occupies longest."""
    return max(operation.uses, key=lambda name: sum(operation.uses[name]), default="none")


def _users(graph: Graph, operation: LoopOperation) -> str:
    return ", ".join(dict.fromkeys(e.target for e in graph.edges if e.source == operation.name and e.carries_data))


def load_schedule(path: Path, space: ScheduleSpace) -> Config:
    """Return the member of a space in a file that `dump_schedule` wrote, or in the JSON beside it.

    Tiles that the file does not name are the default ones. Raises `ScheduleError` for a file that cannot be read, one
    of another kernel, and a schedule that is invalid here.
    """
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ScheduleError(f"cannot read {path}: {why}", "give a schedule that a search wrote") from None
    try:
        found = _from_json(text) if text.lstrip().startswith("{") else _from_text(text)
    except BAD_DATA:
        raise ScheduleError(f"{path} holds no schedule", "give schedule_0000.txt or .json of a search") from None
    tiles, cycles = found
    if cycles.keys() != {INTERVAL, *space.operations}:
        differ = ", ".join(sorted(cycles.keys() ^ {INTERVAL, *space.operations}))
        raise ScheduleError(
            f"{path} is a schedule of another kernel: they differ in {differ}", "give one of this kernel"
        )
    config = Config({**space.some_tiles, **tiles, **cycles})
    try:
        space.require(config)
    except ScheduleError as error:
        raise ScheduleError(f"{path}: {error.message}", error.hint) from None
    return config


def _from_json(text: str) -> tuple[dict[str, Value], dict[str, int]]:
    said: dict[str, Any] = json.loads(text)
    cycles = {str(name): cycle for name, cycle in said["schedule"].items()}
    return dict(said.get("tiles", {})), {INTERVAL: said["initiation_interval"], **cycles}


def _from_text(text: str) -> tuple[dict[str, Value], dict[str, int]]:
    head = dict(re.findall(r"^([A-Z][A-Za-z ]+): (.+)$", text, re.MULTILINE))
    tiles = dict(pair.split("=") for pair in head["Tiles"].split(", ")) if "Tiles" in head else {}
    _, columns, *rows = text[text.index("\nSchedule:") :].strip().splitlines()
    names = [name.strip() for name in columns.split("|")]
    cells = [dict(zip(names, (cell.strip() for cell in row.split("|")), strict=True)) for row in rows]
    cycles = {row["Name"]: int(row["Cycle"]) for row in cells}
    return {n: _value(v) for n, v in tiles.items()}, {INTERVAL: int(head["Initiation Interval"]), **cycles}


def _value(text: str) -> Value:
    if text in ("True", "False"):
        return text == "True"
    return int(text) if _NUMBER.fullmatch(text) else text
