"""Examples from what the archive holds of this installation's runs."""

from __future__ import annotations

import pytest
from kernelwright.core import Query, Target
from kernelwright.core.languages import TILELANG
from kernelwright.corpus import find_kernel
from kernelwright.rag import ExampleRetriever, run_examples, runs

from ..made_up_runs import FOUND, START, archived_run


def test_a_run_becomes_an_example() -> None:
    (found,) = run_examples([archived_run()], pytest.fail)
    assert (found.slug, found.origin, found.problem) == ("run/level1-1_1-aaaaaaaa", "run", "level1/1_1")
    assert (found.language, found.target) == (TILELANG, Target.CPU)
    assert (found.before, found.after) == (START.source, FOUND.source)
    assert found.operation == "matmul" and found.category == "compute"
    assert found.techniques == ("register-tiling",) and "register-tile" in found.title
    assert found.story.startswith("A tile stays in registers.")
    assert found.gain is not None and found.gain.speedup == 4.0


def test_it_tells_what_failed() -> None:
    (found,) = run_examples([archived_run()], pytest.fail)
    assert found.story.endswith("What failed on the way: licm (compile_error: no such name).")
    (quiet,) = run_examples([archived_run(tried=())], pytest.fail)
    assert quiet.story == "A tile stays in registers."


def test_it_is_found_but_not_for_its_own_problem() -> None:
    retriever = ExampleRetriever(run_examples([archived_run()]), None)
    source = find_kernel("1_1", "tilelang_cpu").read().source
    query = Query("matrix product", TILELANG, Target.CPU, source=source)
    assert [hit.example.origin for hit in retriever.search(query, 3)] == ["run"]
    assert retriever.search(Query("matrix product", exclude="level1/1_1"), 3) == []


@pytest.mark.parametrize("speedup", [1.05, None], ids=["too little", "no improvement"])
def test_other_runs_teach_nothing(speedup: float | None) -> None:
    assert run_examples([archived_run(speedup=speedup)], pytest.fail) == []


def test_a_run_of_a_kernel_that_cannot_be_read_is_reported_and_left_out() -> None:
    notes: list[str] = []
    run = archived_run()
    assert run.improvement is not None
    broken = run.model_copy(update={"improvement": run.improvement.model_copy(update={"before": "no kernel"})})
    assert len(run_examples([broken, run], notes.append)) == 1
    assert len(notes) == 1 and run.run in notes[0]


def test_a_run_whose_code_cannot_be_analysed_teaches_without_its_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise IndexError("not foreseen")

    monkeypatch.setattr(runs, "operation", fail)
    (found,) = run_examples([archived_run()], pytest.fail)
    assert found.operation == "unknown operation"
    assert ExampleRetriever([found], None).search(Query("tile in registers"), 1)[0].example == found
