"""`kernelwright list` shows kernels and problems at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from kernelwright.corpus import list_kernels, list_problems

from ..corpus.flashinfer_trace.folders import copied
from .commands import kernelwright


def listed(*arguments: object, cwd: Path) -> dict[str, Any]:
    """The kernels of each problem, by backend."""
    run = kernelwright("list", "--json", *arguments, cwd=cwd)
    assert run.returncode == 0, run.stderr
    return {found["problem"]: found["kernels"] for found in json.loads(run.stdout)["problems"]}


def test_all_shipped_problems_with_their_kernels(tmp_path: Path) -> None:
    found = listed(cwd=tmp_path)
    assert {problem.id for problem in list_problems()} < set(found)
    assert found["level2/2_10"] == {backend: ["level2/2_10"] for backend in ("tilelang_cpu", "tilelang", "triton")}
    assert found["gemm/moe"] == {"triton": ["gemm/moe"]}
    shown = kernelwright("list", cwd=tmp_path).stdout
    assert "94_MSELoss" in shown and f"{len(found)} problems, {len(found)} with a kernel" in shown


def test_those_of_one_backend(tmp_path: Path) -> None:
    found = listed("--backend", "tilelang_cpu", cwd=tmp_path)
    assert list(found) == [file.problem for file in list_kernels("tilelang_cpu")]
    assert {tuple(kernels) for kernels in found.values()} == {("tilelang_cpu",)}


def test_problems_of_a_checkout_without_a_kernel_too(tmp_path: Path) -> None:
    level = tmp_path / "KernelBench" / "level1"
    level.mkdir(parents=True)
    for name in ("19_ReLU.py", "99_TripletMarginLoss.py"):
        (level / name).write_text("class Model: ...\n")
    found = listed("--dataset", tmp_path, cwd=tmp_path)
    assert set(found["level1/1_19"]) == {"tilelang_cpu", "tilelang", "triton"} and found["level1/1_99"] == {}
    assert "none" in kernelwright("list", "--dataset", tmp_path, cwd=tmp_path).stdout


def test_solutions_of_recorded_workloads(tmp_path: Path) -> None:
    found = listed("--dataset", copied(tmp_path / "traces"), "--backend", "triton", cwd=tmp_path)
    assert found and all(list(kernels) == ["triton"] for kernels in found.values())
    assert "rmsnorm_triton" in str(found), found


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    program = (
        "import sys; sys.argv[1:] = ['list']\nfrom kernelwright.cli.main import app\n"
        "app(standalone_mode=False)\nprint(sorted({'torch', 'tilelang', 'triton'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert run.stdout.splitlines()[-1] == "[]"
