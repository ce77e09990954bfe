"""Rows about problems: which ones, shared among processes, in a file that a later run goes on from."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from kernelwright.core import OptionError
from kernelwright.core.files import write_whole
from kernelwright.corpus import ProblemFile, list_problems

T = TypeVar("T")


def problems_of(dataset: Path | None, levels: str, wanted: Callable[[int], bool] = lambda number: True) -> list[Any]:
    """Return the problems of levels such as '1,2' whose numbers are wanted; of the shipped ones without a dataset.

    Raises `OptionError` for a level without problems.
    """
    found = list_problems(dataset)
    there = {item.id.partition("/")[0] for item in found}
    names = {f"level{level.strip()}" for level in levels.split(",")}
    if missing := sorted(names - there):
        raise OptionError(f"no problems of {', '.join(missing)}", f"there are {', '.join(sorted(there))}")
    return [item for item in found if item.id.partition("/")[0] in names and wanted(number_of(item))]


def number_of(problem: ProblemFile) -> int:
    """Return 10 for 'level2/2_10'."""
    return int(problem.id.rpartition("_")[2])


def numbers(text: str) -> set[int]:
    """Return the numbers in '1-3,19'; `argparse.ArgumentTypeError` for another text."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            raise argparse.ArgumentTypeError(f"{part.strip()!r} is not a number of a problem; write 1,19 or 1-10")
        found.update(range(int(first), int(last or first) + 1))
    return found


def share_of(problems: Sequence[T], shard: str) -> list[T]:
    """Return the K-th of N parts of the problems, for 'K/N'. Raises `OptionError` for another text."""
    part, parts = (int(item) if item.isdecimal() else 0 for item in shard.partition("/")[::2])
    if not 1 <= part <= parts:
        raise OptionError(f"no part {shard!r}", "--shard 1/2 and --shard 2/2 are the halves")
    return list(problems[part - 1 :: parts])


class Rows:
    """The rows in a JSONL file, each on disk as it ends.

    A file that has some is only gone on with, with `resume`. Raises `OptionError` and `ResultsError`.
    """

    def __init__(self, output: Path, resume: bool) -> None:
        self._output = output
        self.rows = self.of(output)
        if self.rows and not resume:
            raise OptionError(f"{output} has {len(self.rows)} rows", "--resume adds to them; or name another --output")
        write_whole(output, "".join(f"{json.dumps(row)}\n" for row in self.rows))

    def add(self, row: dict[str, Any]) -> None:
        """Append a row."""
        self.rows.append(row)
        with self._output.open("a") as file:
            file.write(f"{json.dumps(row)}\n")

    @staticmethod
    def of(path: Path) -> list[dict[str, Any]]:
        """Return the rows in a file; a last line that was not written whole is left out."""
        rows = []
        lines = path.read_text().splitlines() if path.is_file() else []
        for number, line in enumerate(lines, start=1):
            try:
                rows.append(json.loads(line))
            except ValueError:
                if number < len(lines):
                    raise OptionError(f"{path}, line {number} is not a row", "name another --output") from None
        return rows
