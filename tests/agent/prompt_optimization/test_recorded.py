"""Situations to practise on, read back from a run that was recorded, whole and damaged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from kernelwright.agent.prompt_optimization.recorded import journals_in, read_turn_contexts
from kernelwright.agent.turn import latest_turns
from kernelwright.core import JournalError, Problem, read_journal
from kernelwright.corpus import find_problem

from ..history.recorded import RUN, SEARCH, copied, each


def problems(name: str) -> Sequence[Problem]:
    return [find_problem(name).read()]


def device(folder: Path = RUN) -> str:
    (path,) = journals_in([folder])
    run = next(json.loads(line) for line in path.read_text().splitlines() if '"run"' in line)
    return str(run["device"])


def test_a_recorded_run_gives_its_start_and_what_it_went_on_from(tmp_path: Path) -> None:
    path = copied(tmp_path)
    notes: list[str] = []
    found = read_turn_contexts([path], problems, device(), notes.append)
    assert notes == []
    assert [situation.problem.id for situation in found] == ["level1/1_36"] * 2
    assert [len(situation.turns) for situation in found] == [0, 1]
    (turn,) = found[1].turns
    assert turn.found is not None
    assert turn.improved
    assert found[1].kernel.source != found[0].kernel.source
    assert turn.gain > 1.01
    assert read_turn_contexts([path, path], problems, device(), notes.append) == found


def test_the_gain_of_a_turn_is_over_what_it_began_with(tmp_path: Path) -> None:
    def third(records: list[Any]) -> list[Any]:
        last = next(record for record in reversed(records) if record["kind"] == "turn")
        return [*records, {**last, "iteration": 3, "before": last["kernel"]}]

    path = copied(tmp_path, change=third)
    first, second, _ = latest_turns(read_journal(path))
    notes: list[str] = []
    *_, last = read_turn_contexts([path], problems, device(), notes.append)
    assert notes == []
    assert first.metrics is not None and first.metrics.latency_ms is not None
    assert first.before != second.before == first.kernel
    start = last.turns[0].before.latency_ms
    assert [turn.before.latency_ms for turn in last.turns] == [start, first.metrics.latency_ms]
    assert start / first.metrics.latency_ms > 1.1


def test_a_turn_that_began_with_what_was_measured_nowhere_is_reported(tmp_path: Path) -> None:
    path = copied(tmp_path, change=each(lambda record: record.update(before=record["before"] + "\n"), "turn"))
    notes: list[str] = []
    assert read_turn_contexts([path], problems, device(), notes.append) == []
    assert notes == [f"left out: {path}: what turn 1 began with was measured nowhere"]


def test_the_searches_of_a_run_that_was_set_aside_are_its_own(tmp_path: Path) -> None:
    path = copied(tmp_path)
    expected = read_turn_contexts([path], problems, device(), [].append)
    for name in (path.name, SEARCH):
        (tmp_path / name).rename((tmp_path / name).with_suffix(".1.jsonl"))
    notes: list[str] = []
    assert read_turn_contexts([path.with_suffix(".1.jsonl")], problems, device(), notes.append) == expected
    assert notes == []


def test_an_error_without_a_message_is_reported_too(tmp_path: Path) -> None:
    def broken(name: str) -> Sequence[Problem]:
        raise ValueError

    notes: list[str] = []
    assert read_turn_contexts([copied(tmp_path)], broken, device(), notes.append) == []
    assert "(ValueError: )" in notes[0]


def _forget(records: list[Any]) -> list[Any]:
    return [record for record in records if record["kind"] != "profile"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (each(lambda record: record.update(device="another"), "run"), "was recorded on another"),
        (each(lambda record: record.update(reference="0" * 16), "run"), "`problem`"),
        (each(lambda record: record.update(sizes="os.abort()"), "run"), "is not what a run writes (ValueError"),
        (each(lambda record: record.update(before=None), "turn"), "turn 1 does not say what it began with"),
        (each(lambda record: record.update(attempts=7), "turn"), "is not a valid turn record: attempts: "),
        (
            each(lambda record: record.update(evaluation={}), "trial"),
            "is not a valid trial record: evaluation.status: ",
        ),
        (_forget, "not correct, or not timed"),
    ],
)
def test_a_journal_that_cannot_serve_is_left_out_in_a_line(tmp_path: Path, change: Any, told: str) -> None:
    path = copied(tmp_path, change=change)
    notes: list[str] = []
    assert read_turn_contexts([path], problems, device(), notes.append) == []
    (note,) = notes
    assert note.startswith("left out: ")
    assert told in note
    assert "\n" not in note


def test_journals_are_found_in_results_folders_and_searches_are_none(tmp_path: Path) -> None:
    path = copied(tmp_path / "results" / "multiturn_logs")
    assert journals_in([tmp_path / "results"]) == [path]
    assert journals_in([path]) == [path]
    (tmp_path / "empty").mkdir()
    with pytest.raises(JournalError, match="no journals in"):
        journals_in([tmp_path / "empty"])
    with pytest.raises(JournalError, match="there is no"):
        journals_in([tmp_path / "nowhere"])
