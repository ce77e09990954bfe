from __future__ import annotations

import json
from pathlib import Path

from .commands import kernelwright, refused


def test_it_says_that_nothing_was_measured(tmp_path: Path) -> None:
    sizes = ("--seq-len-q", 200, "--num-heads", 2, "--simulate", "--trials", 3)
    run = kernelwright("tune", "attention", *sizes, "--json", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["simulated"] and found["iterations"] == 3
    assert "simulated, not measured: " in run.stderr
    assert (tmp_path / found["folder"] / "final_results.json").exists()
    quiet = kernelwright("tune", "attention", *sizes, "--quiet", cwd=tmp_path)
    assert "simulated, not measured" in quiet.stdout and "[1]" not in quiet.stdout


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    run = kernelwright("tune", "attention", "--head-dim", 40, "--simulate", cwd=tmp_path)
    assert "--head-dim 40 is not a size that the matrix instructions have" in refused(run)
    assert not list(tmp_path.iterdir())
