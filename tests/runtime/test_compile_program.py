"""What `compile_program` practises on, and what it makes room for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kernelwright.agent.prompt_optimization.compile_folder import CompileFolder
from kernelwright.commands.agent.compile import Options as CompileOptions
from kernelwright.commands.agent.compile import chosen_situations
from kernelwright.core import Journal, JournalError
from kernelwright.core.languages import TILELANG, TRITON

from ..agent.history.recorded import recorded_here


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return recorded_here(tmp_path, monkeypatch)


def test_what_an_earlier_compile_left_is_set_aside_whole_or_corrupt(tmp_path: Path) -> None:
    folder = tmp_path / "compile"
    folder.mkdir()
    for content in ("no journal\n{}\n", '{"second":1}\n'):
        for name in ("transcript.jsonl", "journal_x.jsonl"):
            (folder / name).write_text(content)
        assert CompileFolder(tmp_path, resume=True).transcript.read_text() == content
        assert not CompileFolder(tmp_path, resume=False).transcript.exists()
    assert sorted(path.name for path in folder.iterdir()) == [
        "journal_x.1.jsonl", "journal_x.2.jsonl", "transcript.1.jsonl", "transcript.2.jsonl",
    ]  # fmt: skip
    assert (folder / "transcript.1.jsonl").read_text() == "no journal\n{}\n"


def test_a_compile_that_goes_on_is_not_set_aside(tmp_path: Path) -> None:
    with Journal(tmp_path / "compile" / "transcript.jsonl"), pytest.raises(JournalError, match="in use by another"):
        CompileFolder(tmp_path, resume=False)
    assert (tmp_path / "compile" / "transcript.jsonl").exists()


def test_one_backend_is_chosen_and_the_others_are_left_out_in_a_line(elsewhere: Path) -> None:
    kernel = "import triton\n\n\nclass ModelNew: ...\n"
    records = [json.loads(line) for line in elsewhere.read_text().splitlines()]
    for record in records:
        if record["kind"] == "kernel":
            record["source"] = kernel
    other = elsewhere.with_name("journal_other.jsonl")
    other.write_text("".join(json.dumps(record) + "\n" for record in records if record["kind"] != "turn"))
    notes: list[str] = []
    found = chosen_situations(CompileOptions((Path("results"),)), "cpu", notes.append)
    assert {turn.kernel.language for turn in found} == {TILELANG}
    (note,) = notes
    assert "1 of triton" in note
    (turn,) = chosen_situations(CompileOptions((Path("results"),), backend="triton"), "cpu", notes.append)
    assert turn.kernel.language is TRITON
