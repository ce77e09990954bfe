"""What a run learned, by its journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kernelwright.agent.archived_run import archived
from kernelwright.core import Experience, read_journal

from ..made_up_runs import FOUND, START, journal, records


def test_a_run_leaves_what_it_tried_and_what_it_verified(tmp_path: Path) -> None:
    found = archived(read_journal(journal(tmp_path, records())))
    assert found is not None and found.improvement is not None
    assert (found.problem, found.backend) == ("level1/1_1", "tilelang_cpu")
    assert (found.work, found.operators) == ("products", ("mm",))
    assert found.tried == (
        Experience(technique="register-tile", gain=4.0),  # the full evaluation, not the quick trial
        Experience(technique="licm", gain=0.0, cause="compile_error: no such name"),
        Experience(technique="fuse-passes", gain=0.9),
    )
    better = found.improvement
    assert (better.before, better.after) == (START.source, FOUND.source)
    assert (better.gain.before_ms, better.gain.after_ms, better.gain.speedup) == (4.0, 1.0, 4.0)
    assert (better.category, better.techniques) == ("compute", ("register-tile",))
    assert better.story == "A tile stays in registers."


def test_a_refused_kernel_is_a_failure_with_its_cause(tmp_path: Path) -> None:
    lines = records()
    lines[6]["attempts"][3]["error"] = "not replayed: a flag"
    found = archived(read_journal(journal(tmp_path, lines)))
    assert found is not None
    assert found.tried[0] == Experience(technique="register-tile", gain=0.0, cause="not replayed: a flag")


def test_a_run_has_the_same_digits_wherever_its_journal_lies(tmp_path: Path) -> None:
    run, same, other = (
        archived(read_journal(journal(tmp_path, lines, name)))
        for lines, name in ((records(), "a"), (records()[:8], "b"), (records(problem="level1/1_2"), "c"))
    )
    assert run is not None and same is not None and other is not None
    assert run.run == same.run != other.run
    assert same.improvement is None and same.tried == run.tried


@pytest.mark.parametrize(
    "lines",
    [records(final_ms=4.0), records(verified=False), records(contention=1.0), records()[:-1]],
    ids=["no faster", "not verified", "disturbed", "not finished"],
)
def test_only_a_verified_gain_is_an_improvement(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    found = archived(read_journal(journal(tmp_path, lines)))
    assert found is not None and found.improvement is None and found.tried


@pytest.mark.parametrize("lines", [records()[1:], records()[:5], []], ids=["no run", "no turn", "empty"])
def test_nothing_is_learned_before_the_first_turn(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    assert archived(read_journal(journal(tmp_path, lines))) is None
