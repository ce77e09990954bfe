"""The table of causes, and its copy in the documentation."""

from __future__ import annotations

import os
import re
from pathlib import Path

import kernelwright
from kernelwright.core.causes.observed import Cause
from kernelwright.core.causes.table import CAUSES
from kernelwright.core.retrieval import BOTTLENECKS

PAGE = Path(kernelwright.__path__[0]) / "docs" / "profile.md"
MARKED = re.compile(r"(<!-- causes: [^\n]*-->\n).*?(<!-- end -->)", re.DOTALL)


def test_the_page_has_the_table() -> None:
    rows = [f"| {row.category} | {row.name} | {row.facts} | {row.meaning} |" for row in CAUSES]
    table = "\n".join(["| category | cause | found by | when |", "|---|---|---|---|", *rows, ""])
    text = PAGE.read_text(encoding="utf-8")
    written = MARKED.sub(lambda found: found[1] + table + found[2], text)
    if os.environ.get("GOLDEN") == "write":
        PAGE.write_text(written, encoding="utf-8")
        text = written
    assert table in text and text == written


def test_every_row_has_a_category_of_the_bottlenecks() -> None:
    assert {row.category for row in CAUSES} == set(BOTTLENECKS)


def test_what_costs_nothing_is_a_remark() -> None:
    assert Cause("memory", "traffic", 1.0, "moves bytes").evidence == "moves bytes"
    assert Cause("memory", "traffic", 2.0, "moves bytes").evidence == "moves bytes: costs up to 50% of the time"
    assert Cause("memory", "traffic", 2.0, "").evidence == ""
