"""`kernelwright corpus add` and `list`: what was verified becomes an example, what was not is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from kernelwright import rag
from kernelwright.cli.main import app
from kernelwright.core import Archive, Query
from kernelwright.core.files import archive_path
from kernelwright.corpus import ExampleFolder, find_problem
from kernelwright.corpus.examples import list_examples, load_examples
from kernelwright.runtime.archive import EarlierRuns, Examples
from typer.testing import CliRunner

from ..cli.commands import refused_here
from ..made_up_runs import FOUND, START, archived_run, journal, records

PROBLEM = find_problem("level1/1_1").read()


def _corpus(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["corpus", *map(str, arguments)])


def _run(verified: bool = True, **changes: Any) -> list[dict[str, Any]]:
    first, *others = records(verified=verified)
    return [{**first, "reference": PROBLEM.digest, "sizes": "[('N', 256)]", **changes}, *others]


def test_a_run_becomes_an_example_in_a_shared_folder(tmp_path: Path) -> None:
    team = tmp_path / "team"
    ran = _corpus("add", journal(tmp_path, _run()), "--folder", team, "--json")
    assert ran.exit_code == 0, ran.output
    said = json.loads(ran.stdout)
    slug = "tilelang_cpu/square-matrix-multiplication-register-tiling"
    assert (said["example"], said["path"]) == (slug, str(team / slug))
    (found,) = load_examples(pytest.fail, team)
    assert (found.before, found.after, found.problem) == (START.source, FOUND.source, "level1/1_1")
    assert (found.operation, found.category, found.techniques) == ("matmul", "compute", ("register-tiling",))
    assert found.gain is not None and found.gain.speedup == 4.0
    (folder,) = list_examples(team)
    assert isinstance(folder, ExampleFolder) and folder.read_problem().integers["N"] == 256
    assert "choose another --name" in refused_here(_corpus("add", journal(tmp_path, _run()), "--folder", team))
    assert _corpus("add", journal(tmp_path, _run()), "--folder", team, "--name", "again").exit_code == 0
    listed = _corpus("list", "--folder", team)
    assert listed.exit_code == 0 and listed.stdout.count("4.00x on a CPU") == 2


def test_a_run_of_the_archive_needs_no_results_folder(tmp_path: Path) -> None:
    Archive(archive_path()).add(archived_run(reference=PROBLEM.digest))
    assert _corpus("add", "a" * 16, "--folder", tmp_path / "own", "--name", "mine").exit_code == 0
    assert "has no run" in refused_here(_corpus("add", "b" * 16, "--folder", tmp_path / "own"))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (_run(verified=False), "no kernel passed the final check"),
        (_run()[:-1], "did not finish"),
        (_run(reference="0" * 16), "not the one that the run solved"),
        (_run(problem="level9/9_9"), "no problem 'level9/9_9'"),
        (_run(sizes="[('no_such', 2)]"), "no_such"),
    ],
    ids=["not verified", "not finished", "another problem", "unknown problem", "other sizes"],
)
def test_what_was_not_verified_or_cannot_be_repeated_is_refused(
    lines: list[dict[str, Any]], said: str, tmp_path: Path
) -> None:
    assert said in refused_here(_corpus("add", journal(tmp_path, lines), "--folder", tmp_path / "own"))
    assert not (tmp_path / "own").exists()


def test_a_technique_that_is_not_known_is_asked_for(tmp_path: Path) -> None:
    lines = _run()
    lines[6] |= {"strategy": "magic", "rationale": "It is faster."}
    path = journal(tmp_path, lines)
    assert "name one with --technique" in refused_here(_corpus("add", path, "--folder", tmp_path / "own"))
    assert "--technique 'spell'" in refused_here(_corpus("add", path, "--technique", "spell"))
    assert _corpus("add", path, "--technique", "fusion", "--folder", tmp_path / "own").exit_code == 0


@pytest.mark.parametrize(
    "command", [("corpus", "list", "--folder"), ("corpus", "verify", "--folder"), ("retrieve", "x", "--examples")]
)
def test_a_folder_that_is_not_there_is_refused(command: tuple[str, ...]) -> None:
    assert "is not a folder" in refused_here(CliRunner().invoke(app, [*command, "nowhere"]))


def test_a_folder_and_the_archive_are_searched_beside_the_shipped_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rag, "load_embedder", lambda note: None)  # loading it takes seconds
    _corpus("add", journal(tmp_path, _run()), "--folder", tmp_path / "own", "--name", "mine")
    Archive(archive_path()).add(archived_run(problem="level1/1_2"))
    query = Query("register tile", language=START.language, target=START.target)

    def found(own: Path, archive: bool) -> set[str]:
        examples = Examples(EarlierRuns(tmp_path / "empty", pytest.fail, archive), own, pytest.fail)
        return {hit.example.slug for hit in examples.search(query, 6)}

    assert "run/level1-1_2-aaaaaaaa" in found(tmp_path / "nothing", archive=True)
    assert "tilelang_cpu/mine" in found(tmp_path / "own", archive=False)
    assert not any(slug.startswith("run/") for slug in found(tmp_path / "own", archive=False))


def test_the_shipped_examples_are_listed() -> None:
    ran = _corpus("list", "--backend", "tilelang_cpu", "--json")
    assert "tilelang_cpu/softmax-lanes" in {example["example"] for example in json.loads(ran.stdout)["examples"]}
