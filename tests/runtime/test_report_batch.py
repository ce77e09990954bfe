"""The pages of a batch: one for each run, and one that lists them."""

from __future__ import annotations

import json
from pathlib import Path

import kernelwright
import pytest
from kernelwright.core import KernelwrightError
from kernelwright.core.events import Event, Warned

from ..agent.history.recorded import JOURNAL, Record, copied
from .report_page import ELEMENTS, EVIL, Page, report

SOFTMAX, CUT_OFF, UNREAD = (f"journal_{name}_tilelang_cpu.jsonl" for name in ("23_Softmax", "40_LayerNorm", "1_Empty"))


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    """A results folder as `--batch` leaves it: a run, one that did not verify, one cut off, and one not begun."""
    logs = tmp_path / "multiturn_logs"
    records = [json.loads(line) for line in copied(logs).read_text().splitlines()]

    def write(name: str, problem: str, records: list[Record]) -> None:
        changed = [
            {**record, "problem": problem} if record["kind"] in ("run", "finished") else record for record in records
        ]
        (logs / name).write_text("".join(json.dumps(record) + "\n" for record in changed))

    unverified = [{**record, "verified": False} if record["kind"] == "finished" else record for record in records]
    write(SOFTMAX, "level1/1_23", unverified)
    write(CUT_OFF, "level1/1_40" + EVIL, records[:5])
    (logs / UNREAD).write_text("")
    return tmp_path


def test_a_batch_gets_a_page_for_each_run_and_one_that_lists_them(batch: Path) -> None:
    logs, heard = batch / "multiturn_logs", list[Event]()
    result = kernelwright.report(batch, on_event=heard.append)
    pages = [logs / f"report_{name}_tilelang_cpu.html" for name in ("36_RMSNorm_", "23_Softmax", "40_LayerNorm")]
    assert result.to_json() == {"report": str(logs / "report.html"), "runs": [str(path) for path in pages]}
    assert all(Page(path.read_text()).elements <= ELEMENTS for path in pages)
    (warning,) = heard
    assert isinstance(warning, Warned) and UNREAD in warning.text
    page = Page((logs / "report.html").read_text())
    assert page.elements <= ELEMENTS
    assert page.values("href") == [path.name for path in pages]
    assert page.text.index("level1/1_36") < page.text.index("level1/1_23") < page.text.index("level1/1_40")
    for said in (
        "3 runs", "0 of 3 runs reached the target.", "1 ended with a kernel that passed the final check.",
        "1.238x[1.158, 1.324]", "3x", "target not reached", "no kernel passed the final check",
        "not finished", "Not readable " + UNREAD,
    ):  # fmt: skip
        assert said in page.text, said


def test_a_run_without_a_target_reaches_none(batch: Path) -> None:
    logs = batch / "multiturn_logs"
    (logs / SOFTMAX).unlink()
    (logs / CUT_OFF).unlink()
    path = logs / JOURNAL
    records = [json.loads(line) for line in path.read_text().splitlines()]
    records[-1] |= {"target_speedup": None, "target_reached": None}
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    kernelwright.report(batch, on_event=list[Event]().append)
    pages = [Page(item.read_text()) for item in sorted(logs.glob("report*.html"))]
    assert len(pages) == 2
    assert not any("arget of" in page.text or "reached" in page.text for page in pages)


def test_a_batch_can_be_written_elsewhere_and_overwrites_no_run(batch: Path, tmp_path: Path) -> None:
    top = tmp_path / "pages" / "all.html"
    result = report(batch, top)
    assert result.page == top and {page.parent for page in result.runs} == {top.parent}
    assert sorted(path.name for path in top.parent.iterdir()) == sorted(path.name for path in (top, *result.runs))
    with pytest.raises(KernelwrightError, match="would be the page of one run as well"):
        report(batch, result.runs[0])
    journal = batch / "multiturn_logs" / SOFTMAX
    before = journal.read_bytes()
    with pytest.raises(KernelwrightError, match="which the report would overwrite"):
        report(batch, journal)
    assert journal.read_bytes() == before


def test_a_folder_of_runs_that_cannot_be_read(tmp_path: Path) -> None:
    for name in (UNREAD, SOFTMAX):
        (tmp_path / name).write_text("")
    with pytest.raises(KernelwrightError, match="is not a journal of 'optimize'"):
        report(tmp_path)
    assert not list(tmp_path.glob("*.html"))
