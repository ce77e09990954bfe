from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from kernelwright.agent.results import Results
from kernelwright.agent.searches import TUNING
from kernelwright.core import Config, Journal, PythonKernel, ResultsError, RunRecord, TorchProblem, read_journal
from kernelwright.core.evidence import with_evidence
from kernelwright.corpus import find_kernel
from kernelwright.corpus.names import parse_id

from ..fakes import PROBLEM, evaluation, kernel

BEST = evaluation(kernel(4.0), Config(), 4.0)
START = evaluation(kernel(20.0), Config(), 20.0)


def evidence_of(source: str) -> dict[str, object]:
    match = re.search(r"^Evaluation Result: (.*)$", ast.get_docstring(ast.parse(source)) or "", re.MULTILINE)
    assert match is not None
    found: dict[str, object] = ast.literal_eval(match[1])
    return found


def test_the_header_holds_the_evidence_and_the_description() -> None:
    source = find_kernel("2_10", "tilelang_cpu").read().source
    text = with_evidence(source, PROBLEM, BEST, START)
    lines = text.splitlines()
    assert lines[1] == "Problem Name: 1_P"
    found = evidence_of(text)
    assert found["speedup_ratio"] == 2.5
    assert found["latency_ms"] == 4.0
    assert found["start_latency_ms"] == 20.0
    assert found["seeds"] == [1]
    assert "Transposed convolution" in text
    assert PythonKernel.parse(text).constants == PythonKernel.parse(source).constants


def test_a_second_header_replaces_the_first() -> None:
    source = find_kernel("1_19", "tilelang_cpu").read().source
    once = with_evidence(source, PROBLEM, BEST, START)
    twice = with_evidence(once, PROBLEM, BEST, START)
    assert twice == once
    assert twice.count("Evaluation Result:") == 1


@pytest.mark.parametrize("doc", ['"""A \\\\ and a "quote"."""\n', "", '"""One line."""\nX = 1\n'])
def test_any_docstring_survives(doc: str) -> None:
    source = doc + "import triton\n\n\nclass ModelNew: ...\n"
    text = with_evidence(source, PROBLEM, BEST, START)
    assert evidence_of(text)["speedup_ratio"] == 2.5
    assert (ast.get_docstring(ast.parse(source)) or "") in (ast.get_docstring(ast.parse(text)) or "")


@pytest.mark.parametrize("character", ["\f", "\v", "\x85", "\u2028"])
def test_a_character_that_ends_no_line_cuts_nothing_off(character: str) -> None:
    source = f'"""One{character}line."""\nimport triton\n\n\nclass ModelNew: ...\n'
    text = with_evidence(source, PROBLEM, BEST, START)
    assert text.endswith('"""\n\nimport triton\n\n\nclass ModelNew: ...\n')


@pytest.mark.parametrize(
    ("backend", "suffix"), [("tilelang", ""), ("tilelang_cpu", "_tilelang_cpu"), ("triton", "_triton")]
)
def test_files_are_where_users_look_for_them(tmp_path: Path, backend: str, suffix: str) -> None:
    results = Results(tmp_path)
    problem = TorchProblem("level2/2_10", "10_Name", PROBLEM.source)
    path = results.save_kernel(problem, backend, find_kernel("2_10", "tilelang_cpu").read(), BEST, START)
    assert path == tmp_path / "level2" / f"2_10_optimized_2.500x{suffix}.py"
    assert parse_id(str(path)) == "level2/2_10"
    history = results.save_history(problem, backend, [])
    assert history == tmp_path / "multiturn_logs" / f"optimization_history_10_Name{suffix}.json"
    assert json.loads(history.read_text()) == []


def test_no_backend_overwrites_the_files_of_another(tmp_path: Path) -> None:
    results, kernel = Results(tmp_path), find_kernel("2_10", "tilelang_cpu").read()
    backends = ("tilelang", "tilelang_cpu", "triton")
    written = {results.save_history(PROBLEM, backend, []) for backend in backends}
    written |= {results.save_kernel(PROBLEM, backend, kernel, BEST, START) for backend in backends}
    assert len(written) == 2 * len(backends)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(ResultsError, match="cannot write results folder"):
        Results(blocked)


def test_searches_are_set_aside_with_their_run_whatever_the_problem_is_called(tmp_path: Path) -> None:
    """A name may hold what a glob pattern gives a meaning: the searches of another problem stay."""
    results = Results(tmp_path)
    problem = TorchProblem("mine", "soft[ab]max", PROBLEM.source)
    journal = results.journal_path(problem, "triton")
    own, other = (journal.with_name(f"{stem}_tune_1.jsonl") for stem in (journal.stem, "journal_softamax_triton"))
    for path in (journal, own, other):
        path.touch()
    results.set_aside(problem, "triton")
    assert sorted(path.name for path in journal.parent.glob("*.jsonl")) == sorted(
        [journal.with_suffix(".1.jsonl").name, own.with_suffix(".1.jsonl").name, other.name]
    )


def test_of_two_kernels_of_a_problem_each_goes_on_with_its_own_run(tmp_path: Path) -> None:
    results, runs = Results(tmp_path), [RunRecord(kernel=name) for name in ("first", "second", "third")]
    journal, transcript = (path(PROBLEM, "triton") for path in (results.journal_path, results.transcript_path))
    search = journal.with_name(f"{journal.stem}{TUNING}0123.jsonl")
    results.bring_back(PROBLEM, "triton", runs[0])
    for run in runs[:2]:
        results.set_aside(PROBLEM, "triton")
        for path in (journal, transcript, search):
            with Journal(path) as written:
                written.append(run)
    for run in (runs[0], runs[1], runs[1], runs[0]):
        results.bring_back(PROBLEM, "triton", run)
        assert {path.stat().st_size for path in (journal, transcript, search)} == {journal.stat().st_size}
        assert [next(iter(read_journal(path))) for path in (journal, transcript, search)] == [run] * 3
        assert len([*results.logs.iterdir()]) == 6, "nothing is lost"
    results.bring_back(PROBLEM, "triton", runs[2])
    assert next(iter(read_journal(journal))) == runs[0], "a run that no file is of changes nothing"


def test_of_two_kernels_of_a_problem_each_keeps_its_own_history(tmp_path: Path) -> None:
    results, runs = Results(tmp_path), [RunRecord(kernel=name) for name in ("first", "second")]
    read = (results.history_path(PROBLEM, "triton"), results.conversation_path(PROBLEM, "triton"))
    for run in runs:
        results.set_aside(PROBLEM, "triton")
        with Journal(results.journal_path(PROBLEM, "triton")) as journal:
            journal.append(run)
        for path in read:
            path.write_text(str(run.kernel))
    assert [path.read_text() for path in read] == ["second"] * 2
    earlier = [path.with_name(f"{path.stem}.1{path.suffix}") for path in read]
    assert [path.read_text() for path in earlier] == ["first"] * 2
    for run in (runs[0], runs[1], runs[1], runs[0]):
        results.bring_back(PROBLEM, "triton", run)
        assert [path.read_text() for path in read] == [run.kernel] * 2
        assert len([*results.logs.iterdir()]) == 6, "nothing is lost"
    for path in results.logs.glob("*history_*.?.*"):  # as earlier versions left a folder
        path.unlink()
    results.bring_back(PROBLEM, "triton", runs[1])
    assert next(iter(read_journal(results.journal_path(PROBLEM, "triton")))) == runs[1]
    assert not any(path.exists() for path in read)


def test_a_run_is_ones_own_if_all_that_it_goes_on_from_is(tmp_path: Path, scale_problem: TorchProblem) -> None:
    results = Results(tmp_path)
    assert results.resumes_own(scale_problem, "triton"), "nothing is there"
    results.first_kernel_path(scale_problem, "triton").touch()
    assert not results.resumes_own(scale_problem, "triton"), "a kernel without a journal may be anybody's"
    path = results.journal_path(scale_problem, "triton")
    search = path.with_name(f"{path.stem}{TUNING}0123.jsonl")
    for file in (path, results.transcript_path(scale_problem, "triton"), search):
        with Journal(file) as journal:
            journal.append(RunRecord())
        assert results.resumes_own(scale_problem, "triton")
    for file in (search, results.transcript_path(scale_problem, "triton"), path):
        whole = file.read_bytes()
        file.write_bytes(whole + b'{"kind":"run"}\n')
        assert not results.resumes_own(scale_problem, "triton")
        file.write_bytes(whole)
    assert results.resumes_own(scale_problem, "triton")
