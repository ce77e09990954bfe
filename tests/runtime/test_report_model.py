"""The page about a model: its step as a bar of regions before and after."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ..cli.commands import kernelwright, refused

RECORD: dict[str, Any] = {
    "script": "train.py", "steps": 20, "marked": True, "rounds": 3, "plain_ms": [2.0, 1.9, 2.1],
    "store_ms": [1.6, 1.5, 1.7], "gain": {"ratio": 1.25, "low": 1.12, "high": 1.4}, "compared": None,
    "unsteady": False, "graphs": 1, "breaks": [{"where": "train.py:9", "reason": "<print>", "count": 2}],
    "host_ms": [1.0, 1.0], "step_ms": [4.0, 3.0], "remarks": [], "record": "model_train.json", "credited": 1.25,
    "regions": [
        {"region": "aa", "what": "mm, sum", "calls": 40, "before_ms": 2.0, "after_ms": 1.0, "entry": "aa00-bb11cc22dd"},
        {"region": "bb", "what": "addmm", "calls": 20, "before_ms": 0.2, "after_ms": 0.2, "entry": ""},
    ],
}  # fmt: skip


def page(folder: Path, **fields: Any) -> str:
    (folder / "model_train.json").write_text(json.dumps({**RECORD, **fields}))
    run = kernelwright("report", "model_train.json", cwd=folder)
    assert run.returncode == 0 and run.stdout == "report: report_model_train.html\n", run.stderr
    return (folder / "report_model_train.html").read_text()


def test_a_step_is_a_bar_of_regions(tmp_path: Path) -> None:
    found = page(tmp_path)
    bars = [
        re.findall(r'<div class="(\w+)(?: narrow)?" style="width: ([\d.]+)%" title="(.*?):', text)
        for text in found.split('<div class="bar">')[1:]
    ]
    assert bars[0] == [
        ("region", "50.0", "mm, sum (aa)"),
        ("region", "5.0", "addmm (bb)"),
        ("other", "20.0", "other kernels"),
        ("host", "25.0", "no kernel runs"),
    ]
    assert [part[:2] for part in bars[1]] == [
        ("served", "25.0"),
        ("region", "5.0"),
        ("other", "20.0"),
        ("host", "25.0"),
    ]
    assert "Credited gain: 1.250" in found and "bb11cc22" in found and "&lt;print&gt; (2 times)" in found


def test_what_is_not_credited_is_said(tmp_path: Path) -> None:
    assert "No gain beyond noise" in page(tmp_path, credited=None)
    differs = {"what": "a curve", "error": 1.0, "tolerance": 1e-3, "agrees": False}
    assert "What is computed differs" in page(tmp_path, credited=None, compared=differs)
    assert "No step was profiled" in page(tmp_path, step_ms=[None, None], host_ms=[None, None])


@pytest.mark.parametrize("text", ["{", "[]", '{"script": "train.py"}'])
def test_a_damaged_record_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "model_train.json").write_text(text)
    run = kernelwright("report", "model_train.json", cwd=tmp_path)
    assert "model_train.json" in refused(run) and "kernelwright model" in run.stderr
