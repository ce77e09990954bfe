"""`kernelwright report`: what it prints, and how it ends."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from click.testing import Result
from kernelwright.cli.main import app
from typer.testing import CliRunner

from ..agent.history.recorded import JOURNAL, RUN, copied
from .commands import refused_here


def report(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_the_page_is_named(tmp_path: Path) -> None:
    journal = copied(tmp_path)
    path = tmp_path / "report_36_RMSNorm__tilelang_cpu.html"
    run = report(journal, "--json")
    assert json.loads(run.stdout) == {"report": str(path)}
    assert report(journal).stdout == f"report: {path}\n"
    assert report(journal, "-o", tmp_path / "other.html").stdout == f"report: {tmp_path / 'other.html'}\n"


def test_all_pages_of_a_batch_are_named(tmp_path: Path) -> None:
    journal = copied(tmp_path)
    shutil.copy(journal, tmp_path / "journal_other_tilelang_cpu.jsonl")
    first, second = tmp_path / "report_36_RMSNorm__tilelang_cpu.html", tmp_path / "report_other_tilelang_cpu.html"
    run = report(tmp_path, "--json")
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout) == {"report": str(tmp_path / "report.html"), "runs": [str(first), str(second)]}
    assert report(tmp_path).stdout == f"report: {tmp_path / 'report.html'}\n  {first}\n  {second}\n"


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    journal = copied(tmp_path)
    before = journal.read_bytes()
    assert "there is no" in refused_here(report(tmp_path / "nowhere"))
    assert f"--output {tmp_path} is a folder; name a file" in refused_here(report(RUN, "--output", tmp_path))
    assert "which the report would overwrite" in refused_here(report(journal, "--output", journal))
    assert "cannot write" in refused_here(report(RUN / JOURNAL, "--output", journal / "page.html"))
    assert journal.read_bytes() == before
