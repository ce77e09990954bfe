"""Folders of `tune gemm` and kernels of `tune attention` as operators, their times made up."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import Budget, Config, Evaluation, Kernel, Problem, TorchProblem
from kernelwright.core.verdict import Replay
from kernelwright.corpus import find_problem
from kernelwright.corpus.kernels import ATTENTION_KERNEL
from kernelwright.tuners.gemm.shapes import Shape
from kernelwright.tuners.gemm.sweep import Sweep

from ..cli.commands import kernelwright, refused
from ..tuners.gemm.test_sweep import Log, MadeUp, task
from .results import own_tests, result

ATTENTION = {
    "batch_size": 2, "heads": 4, "kv_heads": 2, "seq_len_q": 64, "seq_len_k": 64, "head_dim": 64, "head_dim_kv": 64,
    "causal": True, "dtype": "float16",
}  # fmt: skip


class Replayed(MadeUp):
    def one(self, problem: Problem, kernel: Kernel, config: Config) -> Evaluation:
        found = super().one(problem, kernel, config)
        return found.model_copy(update={"replay": Replay(replayed=True)}) if found.ok else found


def sized(layout: str, shape: Shape) -> TorchProblem:
    problem = find_problem("gemm/gemm").read()
    return problem.resized(str(shape), {**shape.sizes, "DTYPE": "float16", "LAYOUT": layout})


def swept(folder: Path, layout: str, shapes: list[Shape], evaluator: MadeUp | None = None) -> Path:
    """Tune a product of these shapes with made-up times, and return the folder."""
    wanted = replace(
        task(budget=Budget(trials=8), fixed={"VARIANT": ["plain"], "SPLIT_K": [1]}), problem=partial(sized, layout)
    )
    shapes = [replace(shape, layout=layout) for shape in shapes]
    Sweep(wanted, [evaluator or Replayed()], folder, Log()).run(shapes)
    return folder


def header(path: Path) -> Mapping[str, Any]:
    described = ast.get_docstring(ast.parse(path.read_text())) or ""
    found: Mapping[str, Any] = ast.literal_eval(described.splitlines()[1].partition(":")[2].strip())
    return found


def test_each_shape_of_a_sweep_leaves_its_kernel(tmp_path: Path) -> None:
    folder = swept(tmp_path / "sweep", "TN", [Shape(64, 96, 16), Shape(64, 96, 64)])
    chosen = {row["M"]: row for row in json.loads((folder / "sweep.json").read_text())["shapes"]}
    for m, row in chosen.items():
        path = folder / f"m{m}_n64_k96_tn" / "kernel.py"
        found = header(path)
        assert found["latency_ms"] == row["time_ms"] and found["replayed"] is True
        assert found["sizes"] == {"M": m, "N": 64, "K": 96, "DTYPE": "float16", "LAYOUT": "TN"}
        assert f"BLOCK_SIZE_M = {row['config']['BLOCK_SIZE_M']}\n" in path.read_text()
    swept(folder, "TN", [Shape(64, 96, 16)], MadeUp(wrong=True))
    assert not (folder / "m16_n64_k96_tn" / "kernel.py").exists()


def test_products_of_a_sweep_serve_a_range_in_triton_s_interpreter(tmp_path: Path) -> None:
    folder = swept(tmp_path / "sweep", "TN", [Shape(64, 96, 2), Shape(64, 96, 32)])
    run = kernelwright(
        *("deploy", folder, "--name", "mylib::product", "--output", "out", "--serve", "M=1..48", "--json"),
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["serves"] == [
        "1 <= M <= 48: A float16[M, 96], B float16[96, 64] stored as [1, 0]"  # the same config won at both
    ]
    tried = own_tests(tmp_path / "out", TRITON_INTERPRET="1")
    assert tried.returncode == 0, tried.stdout
    assert "7 passed, 1 skipped" in tried.stdout


def test_a_tuned_attention_finds_its_problem(tmp_path: Path) -> None:
    path = result(
        tmp_path / "attention_tuned.py", ATTENTION_KERNEL.read_text(), "attention", workload="given", sizes=ATTENTION,
        tilelang="0.1.15",
    )  # fmt: skip
    run = kernelwright("deploy", path, "--name", "mylib::attention", "--output", "out", "--json", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["serves"] == ["q float16[2, 4, 64, 64], k float16[2, 2, 64, 64], v float16[2, 2, 64, 64]"]
    assert found["checks"] == []  # its device is not here


@pytest.mark.parametrize("folder", ["empty", "checked"])
def test_folders_without_timed_kernels(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    if folder == "checked":
        (tmp_path / folder / "sweep.json").write_text("{}")
    run = kernelwright("deploy", tmp_path / folder, "--name", "mylib::product", "--output", "out", cwd=tmp_path)
    said = "is no folder of `tune gemm` or `optimize --dynamic` with timed kernels; name the kernel file of a result"
    assert said in refused(run)
