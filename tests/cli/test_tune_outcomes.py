"""What `tune kernel` leaves however it ends, and where; the evaluator is made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kernelwright.cli.execution import NOTHING_FASTER
from kernelwright.core import Config, DeviceError, RunRecord, read_journal

from .commands import refused_here
from .made_up import ENVIRONMENT, Answer, MadeUp, faster_when_larger, install, summary_in, summary_of, tuned_here
from .tuning import journal_in

GRID = ("--tuner", "grid")


@pytest.fixture(autouse=True)
def _here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def ends_with(error: BaseException, after: int, monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    """An evaluator that raises when so many configs were measured."""

    def answer(config: Config) -> Answer:
        if len(made_up.measured) == after:
            raise error
        return faster_when_larger(config)

    made_up = install(MadeUp(answer), monkeypatch)
    return made_up


@pytest.mark.parametrize(
    ("error", "exit_code", "stopped"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (DeviceError("the device is gone; plug it in"), 2, "the device is gone; plug it in"),
    ],
)
def test_what_was_found_is_kept_whatever_ends_the_search(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, exit_code: int, stopped: str
) -> None:
    ends_with(error, 2, monkeypatch)
    run = tuned_here(*GRID)
    assert run.exit_code == exit_code, run.output
    left = summary_in(folder)
    assert (left["stopped"], left["trials"], left["best"]) == (stopped, 2, None)
    assert left["best_so_far"] == {"config": {"BLOCK": 8}, "latency_ms": 12.5}
    assert (left["device"], left["environment"]) == ("an abacus", ENVIRONMENT)


@pytest.mark.parametrize("ending", ["damaged", "interrupted"])
def test_a_run_without_a_trial_of_its_own_leaves_the_earlier_summary(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    install(MadeUp(), monkeypatch)
    assert tuned_here(*GRID).exit_code == 0
    summary, journal = summary_in(folder), journal_in(folder)
    assert summary["best"]["config"] == {"BLOCK": 16}
    if ending == "damaged":
        lines = journal.read_text().splitlines()
        # Two trials are whole before the third, which is not a trial.
        journal.write_text("\n".join([*lines[:3], lines[3].replace('"ok"', '"fine"'), *lines[4:]]) + "\n")
        assert "line 4 is no" in refused_here(tuned_here(*GRID, "--resume"))
    else:
        ends_with(KeyboardInterrupt(), 0, monkeypatch)
        assert tuned_here(*GRID, "--param", "BLOCK=4,8,16,32", "--resume").exit_code == 130
    assert summary_in(folder) == summary


def test_two_workloads_of_a_kernel_lie_beside_each_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(MadeUp(), monkeypatch)
    workloads = ["cpu", "tiny", "rows=2,columns=32", "rows=2,columns=64"]
    left = {name: summary_of(tuned_here(*GRID, "--json", "--workload", name)) for name in workloads}
    assert len({found["journal"] for found in left.values()}) == len(workloads)
    assert len(list((folder / "results").rglob("summary.json"))) == len(workloads)
    for name, found in left.items():
        assert isinstance(read_journal(Path(found["journal"]))[0], RunRecord)
        again = summary_of(tuned_here(*GRID, "--json", "--resume", "--workload", name))
        assert (again["journal"], again["recalled"]) == (found["journal"], 3)


def test_sizes_of_one_name_lie_beside_each_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(MadeUp(), monkeypatch)
    problem = folder / "level1" / "999_Scale.py"
    journals = []
    for rows in (4, 5):
        problem.write_text(problem.read_text().replace('"tiny": {"rows": 4', f'"tiny": {{"rows": {rows}'))
        journals.append(summary_of(tuned_here(*GRID, "--json", "--workload", "tiny"))["journal"])
    assert journals[0] != journals[1]


@pytest.mark.parametrize(
    ("right", "advice"),
    [
        (False, "the unchanged kernel fails too: fix it first"),
        (True, "widen --param: the unchanged kernel is correct"),
    ],
)
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_every_config_fails(
    folder: Path, monkeypatch: pytest.MonkeyPatch, right: bool, advice: str, form: list[str]
) -> None:
    def answer(config: Config) -> Answer:
        return 1.0 if right and config["BLOCK"] == 8 else "runtime_error"

    install(MadeUp(answer), monkeypatch)
    run = tuned_here(*GRID, "--param", "BLOCK=4,16", *form)
    assert run.exit_code == 1, run.output
    (line,) = [line for line in run.stderr.splitlines() if line.startswith("failed:")]
    assert "none of 2 configs is correct: 2 times runtime_error, first: as told" in line
    assert line.endswith(f"journal.jsonl; {advice}")
    left = summary_in(folder)
    assert (left["device"], left["environment"], left["best_so_far"]) == ("an abacus", ENVIRONMENT, None)
    if form:
        assert json.loads(run.stdout) == left


def test_the_summary_knows_device_and_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    install(MadeUp(), monkeypatch)
    found = summary_of(tuned_here(*GRID, "--json"))
    assert (found["device"], found["environment"]) == ("an abacus", ENVIRONMENT)
    assert found["best_so_far"] == {"config": {"BLOCK": 16}, "latency_ms": 6.25}


def test_nothing_faster_has_an_exit_code_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's own constants are the best of those that are tried, and no kernel is written."""
    install(MadeUp(), monkeypatch)
    run = tuned_here("--tuner", "grid", "--param", "BLOCK=4,8", "--json")
    found = summary_of(run, NOTHING_FASTER)
    assert (found["best"]["config"], found["times_as_fast"], found["kernel"]) == ({"BLOCK": 8}, 1.0, None)
    outcome = tuned_here("--tuner", "grid", "--param", "BLOCK=4,8")
    assert outcome.exit_code == 3 and "not measurably faster than the kernel's own constants" in outcome.output
    assert tuned_here("--tuner", "grid", "--param", "BLOCK=8,16").exit_code == 0
