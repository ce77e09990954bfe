"""Schedules go to files and come back; what is none of this kernel's is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kernelwright.core import Config, ScheduleError, SearchSpace
from kernelwright.tuners.schedule.files import dump_schedule, load_schedule
from kernelwright.tuners.schedule.folder import TuningFolder
from kernelwright.tuners.schedule.graph import Graph
from kernelwright.tuners.schedule.modulo import shortest_schedule
from kernelwright.tuners.schedule.space import ScheduleSpace

from ...fakes import evaluation, kernel
from .loops import chain

TILES = SearchSpace.of({"TILE": [1, 2], "WIDE": [False, True]})


def graph_of(tiles: Config) -> Graph:
    return chain(2, 3 * int(tiles["TILE"]), 1)


SPACE = ScheduleSpace(graph_of, TILES)
KERNEL = kernel(1.0)


def member(tile: int = 2) -> Config:
    tiles = Config({"TILE": tile, "WIDE": True})
    return SPACE.config(tiles, *shortest_schedule(SPACE.graph(tiles), least=3))


def test_text_and_json_load_again(tmp_path: Path) -> None:
    config = member()
    folder = TuningFolder(tmp_path, SPACE)
    assert folder.add(evaluation(KERNEL, config, 1.0))
    for suffix in ("txt", "json"):
        assert load_schedule(tmp_path / "schedules" / f"schedule_0000.{suffix}", SPACE) == config


def test_the_text_is_a_table_to_read(tmp_path: Path) -> None:
    graph = chain(2, 2)
    dump_schedule(graph, {"N0": 0, "N1": 5}, 4, tmp_path / "s.txt")
    text = (tmp_path / "s.txt").read_text().splitlines()
    assert text[:2] == ["Initiation Interval: 4", "Number of Stages: 2"]
    assert "Cycle |  copy | tensor | vector" in text and "    1 |     0 |      0 |      1" in text
    assert [[cell.strip() for cell in line.split("|")] for line in text[-2:]] == [
        ["N0", "vector", "0", "0", "0", "0", "N1"],
        ["N1", "vector", "1", "5", "1", "1", ""],
    ]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"schedule": {"N0": 0, "N1": 2}}, "is a schedule of another kernel: they differ in N2; give one of this"),
        ({"initiation_interval": 1}, "an interval of 1 is impossible: the resources of one iteration need 2 cycles"),
        ({"initiation_interval": 0}, "an interval of 0 is impossible; use 1 or more"),
        ({"schedule": {"N0": 0, "N1": 1, "N2": 99}}, "N1 starts in cycle 1, 1 before N0 allows it"),
        ({"schedule": {"N0": 0, "N1": 2.5, "N2": 99}}, "N1 is 2.5, which is not a cycle; use a whole number"),
        ({"tiles": {"TILE": 7, "WIDE": True}}, "the tiles TILE=7, WIDE=True are not in the space"),
        ({"schedule": 3}, "holds no schedule"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, changed: dict[str, object], says: str) -> None:
    TuningFolder(tmp_path, SPACE).add(evaluation(KERNEL, member(), 1.0))
    path = tmp_path / "schedules" / "schedule_0000.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    with pytest.raises(ScheduleError) as refused:
        load_schedule(path, SPACE)
    assert says in str(refused.value) and str(path) in str(refused.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match=r"cannot read .*: No such file"):
        load_schedule(tmp_path / "nothing.txt", SPACE)
    (tmp_path / "notes.txt").write_text("Schedule of next week\n")
    with pytest.raises(ScheduleError, match="holds no schedule"):
        load_schedule(tmp_path / "notes.txt", SPACE)


def test_the_folder_follows_from_the_trials(tmp_path: Path) -> None:
    trials = [
        evaluation(KERNEL, member(1), "compile_error"),
        evaluation(KERNEL, member(1), 2.0),
        evaluation(KERNEL, member(2), 3.0),
        evaluation(KERNEL, member(2), 1.0),
    ]

    def written(name: str) -> dict[str, str]:
        folder = TuningFolder(tmp_path / name, SPACE)
        assert [folder.add(trial) for trial in trials] == [False, True, False, True]
        folder.write()
        return {
            str(path.relative_to(tmp_path / name)): path.read_text() for path in sorted((tmp_path / name).rglob("*.*"))
        }

    first = written("a")
    assert first == written("b")
    assert [name for name in first if name.startswith("schedules")] == [
        f"schedules/schedule_000{number}.{suffix}" for number in (0, 1) for suffix in ("json", "txt")
    ]
    assert first["tuning_progress.csv"].splitlines() == [
        "iteration,latency_us,is_improvement,is_best,status,reason",
        "0,,False,False,compile_error,as told",
        "1,2000.0,False,True,ok,",
        "2,3000.0,False,False,ok,",
        "3,1000.0,True,True,ok,",
    ]
    history = json.loads(first["tuning_history.json"])
    assert [row["latency_us"] for row in history] == [None, 2000.0, 3000.0, 1000.0]
    assert all(row["simulated"] for row in history)
