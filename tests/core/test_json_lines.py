"""Lines that several processes append to one file."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from kernelwright.core import ResultsError
from kernelwright.core.json_lines import append_lines


def test_a_line_is_added_after_one_without_an_end(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lines.jsonl"
    append_lines(path, ['{"a": 1}'], "make room")
    path.write_text(path.read_text().rstrip("\n"))
    append_lines(path, ['{"b": 2}', '{"c": 3}'], "make room")
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"a": 1}, {"b": 2}, {"c": 3}]


def test_nothing_stays_of_a_line_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lines.jsonl"
    append_lines(path, ['{"a": 1}'], "make room")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ResultsError, match="No space left on device; make room"):
        append_lines(path, ['{"b": 2}'], "make room")
    assert path.read_text() == '{"a": 1}\n'


def test_writers_wait_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"

    def write(number: int) -> None:
        for _ in range(20):
            append_lines(path, [json.dumps({"writer": number, "text": "x" * 5000})] * 2, "make room")

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    lines = [json.loads(line)["writer"] for line in path.read_text().splitlines()]
    assert len(lines) == 160
    assert lines[::2] == lines[1::2]
