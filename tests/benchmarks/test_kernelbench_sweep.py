"""The sweep over a KernelBench checkout: every problem gets a row, a failure costs only itself, and it resumes.

The first run starts cold, as everything does for a user: its servers import the libraries themselves.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ..surroundings import WARM_SERVER

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kernelbench_sweep.py"
PROBLEM = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, x):
        {forward}


def get_inputs():
    return [torch.rand(8, 16)]


def get_init_inputs():
    return []
"""
PROBLEMS = {
    "level1/1_Square.py": "return x * x",
    "level1/2_Broken.py": "raise RuntimeError('no such operation')",
    "level2/1_Sum.py": "return x + x",
}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, SCRIPT, "--dataset", str(folder), "--device", "cpu", "--levels", "1,2"]
    command += ["--precisions", "fp32", "--quick"]
    return subprocess.run(
        [*command, "--output", str(folder / "rows.jsonl"), *arguments], capture_output=True, text=True, check=False
    )


def test_three_problems_one_of_which_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, forward in PROBLEMS.items():
        path = tmp_path / "KernelBench" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PROBLEM.format(forward=forward))
    with monkeypatch.context() as cold:
        cold.delenv(WARM_SERVER)
        ran = run(tmp_path)
    assert ran.returncode == 1, ran.stderr
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [(row["id"], row["status"]) for row in rows] == [
        ("level1/1_1", "ok"),
        ("level1/1_2", "ProblemError"),
        ("level2/2_1", "ok"),
    ]
    assert rows[0]["speedup"] > 0 and rows[0]["peak_memory_bytes"] is None
    assert "no such operation" in rows[1]["message"] and "not ok:\nlevel1/1_2" in ran.stdout
    kept = (tmp_path / "rows.jsonl").read_text().splitlines()[:2]
    (tmp_path / "rows.jsonl").write_text("\n".join([*kept, '{"id": "level2/2_1", "prec']))
    again = run(tmp_path, "--resume")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [json.dumps(row) for row in rows[:2]] == kept and rows[2]["id"] == "level2/2_1"
    assert "1/1 level2/2_1" in again.stdout


def test_shards_and_precisions_share_the_problems(tmp_path: Path) -> None:
    for name in ("level1/1_Square.py", "level2/1_Sum.py"):
        path = tmp_path / "KernelBench" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PROBLEM.format(forward=PROBLEMS[name]))
    assert run(tmp_path, "--shard", "2/2", "--precisions", "default").returncode == 0
    (row,) = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert (row["id"], row["precision"], row["status"]) == ("level2/2_1", "default", "ok")


def test_rows_are_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "KernelBench" / "level1" / "1_Square.py"
    path.parent.mkdir(parents=True)
    path.write_text(PROBLEM.format(forward=PROBLEMS["level1/1_Square.py"]))
    (tmp_path / "rows.jsonl").write_text('{"id": "level1/1_1", "precision": "fp32"}\n')
    options = ("--dataset", str(tmp_path), "--device", "cpu", "--levels", "1", "--output", str(tmp_path / "rows.jsonl"))
    ran = subprocess.run([sys.executable, SCRIPT, *options], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1) and "has 1 rows; --resume adds to them" in ran.stderr
    assert (tmp_path / "rows.jsonl").read_text().count("\n") == 1
