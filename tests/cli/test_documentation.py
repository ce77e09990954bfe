"""`kernelwright docs` shows the shipped pages, and messages name pages that there are."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from kernelwright.cli.screens import PlainConsole
from kernelwright.commands import docs
from kernelwright.runtime.command import find_command

from .commands import kernelwright, refused

ROOT = Path(__file__).parents[2]


def test_all_pages_are_listed_with_their_titles(tmp_path: Path) -> None:
    run = kernelwright("docs", cwd=tmp_path)
    names = {"skill", *(path.stem for path in (ROOT / "docs").glob("*.md"))}
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


@pytest.mark.parametrize("words", ["a page for each", "an index"])
def test_the_help_of_report_and_its_page_say_the_same(words: str) -> None:
    texts = [find_command("report").help, (ROOT / "docs" / "history.md").read_text()]
    assert all(words in " ".join(text.split()) for text in texts)


def test_the_first_example_of_kernelbench_runs(tmp_path: Path) -> None:
    """The page has the file, the command and its output; times differ from machine to machine."""
    text = (ROOT / "docs" / "kernelbench.md").read_text()
    (name, source), *_ = re.findall(r"^```python file=(\S+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (tmp_path / name).write_text(source)
    example = re.search(r"^    \$ kernelwright (.*)\n((?:    .*\n)+)", text, re.MULTILINE)
    assert example is not None
    run = kernelwright(*example[1].split(), "--device", "cpu", cwd=tmp_path)
    shown = [line.strip() for line in example[2].splitlines() if not set(line) & set("│┃━─")]
    assert len(shown) == 3
    assert all(line in run.stdout.splitlines() for line in shown), run.stdout + run.stderr
    assert run.returncode == 1
