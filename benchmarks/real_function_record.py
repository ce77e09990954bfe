"""Rows of `real_functions.py`: which functions count as judged, a table and a summary of them, and their record."""

from __future__ import annotations

import json
import platform
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from kernelwright.runtime.devices import device_label

ROOT = Path(__file__).resolve().parents[1]


def counts(row: dict[str, Any]) -> bool:
    """Whether a function is judged: found correct, or wrong as its own call shows."""
    wrong = row["outcome"].startswith("wrong") and row["own"]["state"] == "differs"
    return row["outcome"] == "correct" or wrong


def table(rows: Sequence[dict[str, Any]]) -> str:
    text = []
    for row in sorted(rows, key=lambda row: (row["package"], row["kind"])):
        reason = (
            row.get("without_gpu")
            or row.get("reason")
            or ("" if row["own"]["state"] == "agrees" else row["own"].get("message", ""))
        )
        text.append(
            f"{row['name']:72} {row['outcome']:14} {row.get('seconds', ''):>6} s {row['lines']:>2} lines  "
            f"own call {row['own']['state']}  {reason[:100]}"
        )
    return "\n".join(text)


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    packages = {row["package"] for row in rows}
    return {
        "functions": len(rows),
        "packages": len(packages),
        "judged": sum(map(counts, rows)),
        "share_judged": round(sum(map(counts, rows)) / max(len(rows), 1), 3),
        "median_lines": statistics.median(row["lines"] for row in rows) if rows else 0,
        "outcomes": dict(Counter(row["outcome"] for row in rows)),
        "own_calls": dict(Counter(row["own"]["state"] for row in rows)),
        "cannot_run_without_gpu": dict(Counter(row["without_gpu"] for row in rows if "without_gpu" in row)),
        "judged_by_package": {
            name: f"{sum(counts(row) for row in rows if row['package'] == name)} of "
            f"{sum(row['package'] == name for row in rows)}"
            for name in sorted(packages)
        },
    }


def environment(device: str) -> dict[str, str]:
    libraries = {name: import_module(name).__version__ for name in ("torch", "triton", "tilelang")}
    return {"device": device_label(device), "python": platform.python_version(), **libraries}


def write(path: Path, device: str, rows: list[dict[str, Any]]) -> None:
    """Write the record, without places of this machine."""
    placed = [without_places(row, row["package"]) for row in rows]
    record = {"device": device, **summary(rows), "environment": environment(device), "rows": placed}
    path.write_text(json.dumps(record, indent=1) + "\n")


def without_places(value: Any, package: str) -> Any:
    """Return a row, or a part of it, with files named from their packages on, wherever these were installed."""
    if isinstance(value, dict):
        return {key: without_places(item, package) for key, item in value.items()}
    if isinstance(value, list):
        return [without_places(item, package) for item in value]
    if not isinstance(value, str):
        return value
    place = r"(?<![\w.:/+-])/(?:[^\s\"'(),:/]+/)*?"
    for known in (rf"{re.escape(package)}/", r"site-packages/", r"lib/python[\d.]+/"):
        value = re.sub(rf"{place}{known}", "", value)
    value = value.replace(f"{ROOT}/", "")
    return re.sub(r"(?<![\w.:/+-])/(?!dev/|proc/|sys/)(?:[^\s\"'(),:/]+/)+", "", value)
