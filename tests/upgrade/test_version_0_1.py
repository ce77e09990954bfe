"""What version 0.1 wrote is read: `version_0_1/` has a run, a search, an archive, figures, a store and a configuration.

The files were written by 0.1.0 and stay as they are. A format that changes needs a reader of the old one.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import kernelwright as package
import pytest
from kernelwright.core import read_journal
from kernelwright.core.archive import Archive
from kernelwright.deploy.models.store import RegionStore
from kernelwright.runtime.command import settable_options
from kernelwright.runtime.stored_figures import FigureKey, StoredFigures

from ..cli.commands import kernelwright

WRITTEN = Path(__file__).with_name("version_0_1")


def lines(path: Path) -> list[dict[str, Any]]:
    """A journal as plain JSON."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("path", sorted(WRITTEN.rglob("*.jsonl")), ids=lambda path: path.name)
def test_no_line_of_a_journal_is_lost(path: Path) -> None:
    if path.name != "archive.jsonl":
        kinds = [record.kind for record in read_journal(path)]
        assert kinds == [line["kind"] for line in lines(path)]


def test_a_run_with_its_figures(tmp_path: Path) -> None:
    folder = WRITTEN / "multiturn_logs"
    history = package.load_history(folder)
    finished = lines(folder / "journal_19_ReLU_tilelang_cpu.jsonl")[-1]
    assert history.problem == "level1/1_19" and history.finished is not None and history.finished.verified
    assert history.start.latency_ms == pytest.approx(finished["start"]["latency_ms"], rel=0.2)
    assert [turn.strategy for turn in history.turns] == ["rules"]
    run = kernelwright("report", folder, "--output", tmp_path / "page.html", cwd=tmp_path)
    assert run.returncode == 0 and "split-grid" in (tmp_path / "page.html").read_text()


def test_a_search(tmp_path: Path) -> None:
    run = kernelwright("tune", "export", WRITTEN / "tuning.jsonl", "--csv", tmp_path / "search.csv", cwd=tmp_path)
    origins = [line.get("origin") for line in lines(WRITTEN / "tuning.jsonl") if line["kind"] == "trial"]
    assert run.returncode == 0, run.stderr
    assert len((tmp_path / "search.csv").read_text().splitlines()) == 1 + origins.count("search") > 3


def test_the_archive() -> None:
    (run,) = Archive(WRITTEN / "archive.jsonl").read()
    (technique,) = run.tried
    assert (run.problem, technique.technique, round(technique.gain, 3)) == ("level1/1_19", "split-grid", 0.325)
    assert run.origin is not None and run.origin.user == "user"


def test_figures() -> None:
    (entry,) = json.loads((WRITTEN / "figures.json").read_text())["entries"]
    key = FigureKey(**{name: entry[name] for name in FigureKey.model_fields})
    figure = StoredFigures(WRITTEN / "figures.json").find(key)
    assert figure is not None and figure.speedup.ratio == entry["speedup"]["ratio"]


def test_the_store(tmp_path: Path) -> None:
    shutil.copytree(WRITTEN / "store", tmp_path / "store")
    (file,) = RegionStore([tmp_path / "store"]).files()
    assert file.entry is not None and not file.damaged
    assert (file.entry.key, file.entry.gain) == (file.key, 2.0)


def test_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "config" / "kernelwright"
    own.mkdir(parents=True)
    shutil.copy(WRITTEN / "config.toml", own)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    run = kernelwright("config", "--json", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    found = {(row["command"], row["option"]): row["value"] for row in json.loads(run.stdout)}
    assert found["optimize", "target_speedup"] == 2.0 and found["optimize", "save"] is False
    assert found["tune kernel", "trials"] == 400 and found["tune kernel", "baseline"] == ["compile"]
    assert found["tune gemm", "seed"] == 7 and found["check", "device"] == "cpu"


def test_every_key_of_a_configuration_is_still_one() -> None:
    known = {" ".join(path): set(options) for path, options in settable_options().items()}
    written: dict[str, list[str]] = json.loads((WRITTEN / "options.json").read_text())
    assert len(written) > 15
    gone = {command: set(names) - known.get(command, set()) for command, names in written.items()}
    assert {command: names for command, names in gone.items() if names} == {}
