"""A candidate's process that is started ahead of its kernel."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kernelwright.corpus import find_problem
from kernelwright.evaluators.languages.described_gpu import USUAL
from kernelwright.evaluators.pipeline.processes import Processes
from kernelwright.evaluators.pipeline.spare_candidate import _Spare
from kernelwright.evaluators.settings import Limits, Sandbox

PROBLEM = find_problem("level1/1_19").read().at("tiny")
OTHER = find_problem("level1/1_36").read().at("tiny")


@pytest.fixture
def processes() -> Iterator[Processes]:
    processes = Processes("cpu", Limits(), Sandbox.NONE)
    yield processes
    processes.close()


def asked_for(processes: Processes, *problems: object) -> None:
    for problem in problems:
        processes.candidate_ahead(problem, USUAL)  # type: ignore[arg-type]


def test_the_third_of_a_problem_gets_the_process_that_was_started_ahead(processes: Processes) -> None:
    asked_for(processes, PROBLEM, PROBLEM)
    assert processes.spare_candidate.expect()
    processes.wait_ready()
    cache, start = processes.candidate_ahead(PROBLEM, USUAL)
    assert cache.is_dir()
    ahead, another = start(), start()
    assert ahead.call(10.0, op="release")["ok"] and another.call(10.0, op="release")["ok"]
    assert ahead.pid < another.pid, "the first was forked before"
    ahead.discard()
    another.discard()


@pytest.mark.parametrize("problems", [(PROBLEM,), (OTHER, PROBLEM)])
def test_none_is_started_for_one_kernel_only(processes: Processes, problems: tuple[object, ...]) -> None:
    asked_for(processes, *problems)
    before = {*processes.folder.rglob("candidate-*")}
    assert not processes.spare_candidate.expect()
    processes.wait_ready()
    assert {*processes.folder.rglob("candidate-*")} == before


def test_one_that_is_not_needed_ends_without_being_waited_for(tmp_path: Path) -> None:
    """What starts it may wait for whoever ends it."""
    opened: Future[Any] = Future()
    ended: list[bool] = []
    _Spare("key", tmp_path / "cache", opened).discard()
    opened.set_result(SimpleNamespace(discard=lambda: ended.append(True)))
    assert ended == [True]


@pytest.mark.parametrize("lost", ["another problem", "killed", "closed"])
def test_one_that_does_not_fit_ends(processes: Processes, lost: str) -> None:
    asked_for(processes, PROBLEM, PROBLEM)
    assert processes.spare_candidate.expect()
    processes.wait_ready()
    (caches,) = [{*processes.folder.rglob("ahead-*")}]
    (folder,) = processes.folder.rglob("work/candidate-*")
    if lost == "killed":
        processes.servers.running.untrusted.close()
    elif lost == "closed":
        processes.rest()
    _, start = processes.candidate_ahead(OTHER if lost == "another problem" else PROBLEM, USUAL)
    assert not folder.exists(), "its files are removed"
    assert len(caches) == 3
    worker = start()
    assert worker.call(10.0, op="release")["ok"]
    worker.discard()
