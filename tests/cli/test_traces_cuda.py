"""Recorded workloads and triage on a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kernelwright.corpus.flashinfer_trace.dataset import TraceDataset

from ..corpus.flashinfer_trace.folders import BAG, GEMM, RMS, copied
from .commands import kernelwright

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400)]


@pytest.mark.parametrize(("solution", "definition"), [("rmsnorm_triton", RMS), ("embedding_bag_triton", BAG)])
def test_triton_solutions_are_timed(tmp_path: Path, solution: str, definition: str) -> None:
    root = copied(tmp_path)
    run = kernelwright("evaluate", "--kernel", solution, "--dataset", root, "--device", "cuda", cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    found = TraceDataset.read(root).traces(definition)
    assert [trace.evaluation.status for trace in found if trace.evaluation] == ["PASSED", "PASSED"]


def test_a_definition_without_a_triton_solution_has_headroom(tmp_path: Path) -> None:
    run = kernelwright(
        *("optimize", "--list-slow", "--dataset", copied(tmp_path), "--backend", "triton", "--device", "cuda"),
        *("--format", "json", "--threshold", "100"),
        cwd=tmp_path,
    )
    rows = json.loads(run.stdout)
    assert {row["kernel"] for row in rows if "kernel" in row} == {"rmsnorm_triton", "embedding_bag_triton"}
    (row,) = [row for row in rows if "headroom" in row]
    assert row["problem"] == GEMM and row["compile_ms"] is not None and row["headroom"] > 1
