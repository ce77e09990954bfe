"""The benchmark over KernelBench: a row per problem as it ends, a table of all, and a later run goes on."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kernelwright.corpus import find_problem

from .test_kernelbench_sweep import PROBLEM

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kernelbench.py"
OK = {"status": "ok", "message": "", "seconds": 1.0, "speedup_default": None, "gain": 2.0, "best_ms": 1.0, "turns": 2}


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, check=False)


def rows_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_table_counts_every_problem_and_averages_the_verified_ones(tmp_path: Path) -> None:
    rows = [
        {"id": "level1/1_1", **OK, "speedup": 4.0, "speedup_compile": 1.25},
        {"id": "level1/1_2", **OK, "speedup": 1.0, "speedup_compile": 0.8},
        {"id": "level1/1_3", "status": "OptionError", "message": "no kernel", "seconds": 0.1},
        {"id": "level1/1_4", **OK, "status": "not verified", "speedup": 9.0, "message": "wrong"},
    ]
    paths = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    for path, some in zip(paths, (rows[:1], rows[1:]), strict=True):
        path.write_text("".join(json.dumps(row) + "\n" for row in some))
    shown = run("--show", *paths)
    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout.splitlines()[-1])
    assert (found["problems"], found["verified"]) == (4, 2)
    assert found["fast"]["speedup"] == {"1": 0.25, "1.5": 0.25, "2": 0.25}
    assert found["fast"]["speedup_compile"] == {"1": 0.25, "1.5": 0.0, "2": 0.0}
    assert found["geomean"] == pytest.approx(
        {"speedup": 2.0, "speedup_compile": 1.0, "gain": 2.0, "speedup_default": None, "first_over_compile": None}
    )
    assert (found["median"]["speedup"], found["least"]["speedup_compile"]) == (2.5, 0.8)
    assert "level1/1_3: OptionError: no kernel" in shown.stdout and "fast_1.5" in shown.stdout


def test_a_problem_is_optimized_and_a_failure_costs_its_own_row(tmp_path: Path) -> None:
    level = tmp_path / "KernelBench" / "level1"
    level.mkdir(parents=True)
    shutil.copy(find_problem("level1/1_19").read().path, level)
    (level / "2_Square.py").write_text(PROBLEM.format(forward="return x * x"))
    output = tmp_path / "rows.jsonl"
    options = ("--device", "cpu", "--workload", "tiny", "--seconds", "0.1", "--no-compile", "--no-archive")
    command = ("--dataset", tmp_path, "--level", "1", *options, "--results", tmp_path / "results", "--output", output)
    ran = run(*command)
    assert ran.returncode == 1, ran.stderr
    failed, done = rows_in(output)
    assert (failed["id"], failed["status"]) == ("level1/1_2", "OptionError") and "first one" in failed["message"]
    assert (done["id"], done["status"], done["first_kernel"]) == ("level1/1_19", "ok", False)
    assert done["speedup"] > 0 and done["start_ms"] > 0 and done["trials"] > 0 and done["environment"]["torch"]
    output.write_text(json.dumps(done) + "\n")
    again = run(*command, "--problems", "19", "--resume")
    assert (again.returncode, rows_in(output)) == (0, [done])
    assert "no problem 3" in run(*command, "--problems", "2-3").stderr
