"""`kernelwright docs` shows the shipped pages, and messages name pages that there are."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

from kernelwright.cli.screens import PlainConsole
from kernelwright.commands import docs

from .commands import kernelwright, refused

ROOT = Path(__file__).parents[2]


def test_all_pages_are_listed_with_their_titles(tmp_path: Path) -> None:
    run = kernelwright("docs", cwd=tmp_path)
    names = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert run.returncode == 0
    assert {line.split()[0] for line in run.stdout.splitlines()[:-1]} == names
    assert re.search("^timing +Timing$", run.stdout, re.MULTILINE)
    assert set(json.loads(kernelwright("docs", "--json", cwd=tmp_path).stdout)["pages"]) == names


def test_a_page_is_its_markdown_in_a_pipe_and_formatted_on_a_terminal(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "timing.md").read_text()
    for name in ("timing", "timing.md", "docs/timing.md#one-sample"):
        assert kernelwright("docs", name, cwd=tmp_path).stdout == text
    terminal = PlainConsole(file=io.StringIO(), force_terminal=True, width=80)
    terminal.print(docs.MarkdownPage("# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"))
    assert "|---|" not in terminal.file.getvalue() and "Title" in terminal.file.getvalue()  # type: ignore[attr-defined]


def test_a_page_that_is_not_there(tmp_path: Path) -> None:
    said = refused(kernelwright("docs", "timings", cwd=tmp_path))
    assert "there is no page 'timings'; the nearest are timing, " in said


def test_messages_name_pages_that_there_are() -> None:
    named_in = ("agent", "cli", "commands", "core", "corpus", "evaluators", "runtime", "tuners")
    folders = [ROOT / name for name in named_in]
    sources = [path.read_text() for folder in folders for path in folder.rglob("*.py")]
    named = {name for source in sources for name in re.findall(r"`kernelwright docs (\w+)`", source)} - {"NAME"}
    assert len(named) >= 4 and named <= set(docs.find_pages())
