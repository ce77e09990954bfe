"""The table of causes, and its copy in the documentation."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import kernelwright
import pytest
from kernelwright.core.causes.observed import Cause
from kernelwright.core.causes.table import CAUSES
from kernelwright.core.compiled_code import CompiledCode
from kernelwright.core.retrieval import BOTTLENECKS
from pydantic import ValidationError

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


ACCESS = {"space": "global", "store": False, "width": 4, "count": 1, "in_loop": True}


@pytest.mark.parametrize(
    "forged",
    [
        {"cycles": float("inf")},
        {"busy": 10**400},
        {"passes": [[1] * 300_000]},
        {"mix": {str(number): 1 for number in range(1000)}},
        {"accesses": [{**ACCESS, "known": 0, "lanes": 0}]},
        {"accesses": [{**ACCESS, "known": 9}]},
    ],
)
def test_facts_from_a_candidates_process_are_bounded(forged: dict[str, Any]) -> None:
    CompiledCode(loops=True, hot=1)
    with pytest.raises(ValidationError):
        CompiledCode.model_validate({"loops": True, "hot": 1, **forged})
