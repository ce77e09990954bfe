"""Pages of decisions have a number, a date and a state, and the index lists them."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "adr"
PAGES = sorted(FOLDER.glob("[0-9]*.md"))
HEAD = re.compile(
    r"# (?P<number>\d+)\. (?P<title>.+)\n\nDate: (?P<date>\d{4}-\d\d-\d\d)\n\n"
    r"State: (?P<state>accepted|(?:superseded|amended) by (?P<later>\d{4}(?:, \d{4})*))\n\n"
)


def head(page: Path) -> re.Match[str]:
    match = HEAD.match(page.read_text())
    assert match, f"{page.name} does not begin with a title, a date and a state"
    return match


def test_numbers_are_consecutive() -> None:
    assert [int(page.name[:4]) for page in PAGES] == list(range(1, len(PAGES) + 1))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_a_number_a_date_and_a_state(page: Path) -> None:
    match = head(page)
    assert int(match["number"]) == int(page.name[:4])
    assert len(re.findall(r"^# ", page.read_text(), re.MULTILINE)) == 1, "one title, sections below it"
    written = date.fromisoformat(match["date"])
    for number in re.findall(r"\d+", match["later"] or ""):
        (later,) = FOLDER.glob(f"{number}-*.md")
        assert later > page and date.fromisoformat(head(later)["date"]) >= written


def test_the_index_lists_every_page_with_its_date_and_state() -> None:
    rows = re.findall(r"^\| \[(\d{4})\]\((\S+)\) \| (.+) \| (.+) \| (.+) \|$", (FOLDER / "README.md").read_text(), re.M)
    listed = [
        (number, name, title, day, re.sub(r"\[(\d+)\]\(\S+\)", r"\1", state))
        for number, name, title, day, state in rows
    ]
    assert listed == [(p.name[:4], p.name, m["title"], m["date"], m["state"]) for p in PAGES for m in [head(p)]]
