"""Recorded workloads on the command line, with real compilers: evaluated, optimized, listed."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from kernelwright.agent.loop import Outcome
from kernelwright.corpus.flashinfer_trace.dataset import TraceDataset

from ..corpus.flashinfer_trace.folders import BAG, GEMM, RMS, changed, copied, copied_sol
from .commands import kernelwright, refused

HERE = ("--device", "cpu", "--sandbox", "none")


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_solution_is_evaluated_on_its_workloads_with_a_trace_each(tmp_path: Path) -> None:
    root = copied(tmp_path)
    run = kernelwright("evaluate", "--kernel", "rmsnorm_tilelang_cpu", "--dataset", root, *HERE, "--json", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert [(row["workload"], row["status"]) for row in result["results"]] == [("rms-4", "ok"), ("rms-32", "ok")]
    traces = read(root / "traces" / "norm" / f"{RMS}.jsonl")
    for row, trace in zip(result["results"], traces, strict=True):
        found = trace["evaluation"]
        assert (trace["workload"]["uuid"], found["status"]) == (row["workload"], "PASSED")
        assert found["performance"]["latency_ms"] == row["latency_ms"]
        assert found["performance"]["speedup_factor"] == row["speedup"]
        assert 0 <= found["correctness"]["max_absolute_error"] < 1e-4
    assert len(TraceDataset.read(root).traces(RMS)) == 2


def test_a_wrong_solution_leaves_a_trace_and_one_that_is_not_timed_none(tmp_path: Path) -> None:
    """Triton in the interpreter, in SOL-ExecBench's form."""
    root = copied_sol(tmp_path)
    folder = root / "permute_rows"
    right = ("evaluate", "--kernel", "permute_triton", "--dataset", root, "--workload", "rows-8", *HERE)
    run = kernelwright(*right, cwd=tmp_path)
    assert run.returncode == 0 and "checked, not timed" in run.stdout, run.stderr
    assert not (folder / "traces.jsonl").exists()

    def break_it(record: Any) -> None:
        source = record["sources"][0]
        source["content"] = source["content"].replace("x * 2", "x * 3")

    changed(folder / "solution_permute_triton.json", break_it)
    run = kernelwright(*right, cwd=tmp_path)
    assert run.returncode == 1
    (trace,) = read(folder / "traces.jsonl")
    assert (trace["solution"], trace["evaluation"]["status"]) == ("permute_triton", "INCORRECT_NUMERICAL")
    assert trace["workload"]["tolerance"]["max_error_cap"] == 5.0
    assert trace["evaluation"].get("performance") is None


def test_a_reference_that_fails_is_a_row_and_in_sol_execbench_a_trace(tmp_path: Path) -> None:
    root = copied_sol(tmp_path)
    folder = root / "permute_rows"
    changed(
        folder / "definition.json",
        lambda definition: definition.update(reference=definition["reference"].replace("* 2\n", "* None\n")),
    )
    run = kernelwright("evaluate", "--kernel", "permute_triton", "--dataset", folder, *HERE, "--json", cwd=tmp_path)
    assert run.returncode == 1
    assert "the reference of permute_rows_h32 fails" in json.loads(run.stdout)["results"][1]["error"]
    assert [trace["evaluation"]["status"] for trace in read(folder / "traces.jsonl")] == ["INVALID_REFERENCE"] * 2


def test_a_definition_is_optimized_into_a_solution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its Solution, for all its Workloads together; the result is a Solution of the dataset, evaluated as one."""
    monkeypatch.setattr(Outcome, "faster", True)  # whatever one turn of so few samples finds
    root = copied(tmp_path)
    run = kernelwright(
        *(
            "optimize",
            "--kernel",
            GEMM,
            "--dataset",
            root,
            "--model",
            "rules",
            "--max-iterations",
            "1",
            *HERE,
            "--json",
        ),
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert (result["problem"], result["workload"]) == (GEMM, "gemm-16 | gemm-64")
    rows = [result["best"]["workloads"][name] for name in ("gemm-16", "gemm-64")]
    mean = math.prod(row["latency_ms"] for row in rows) ** 0.5
    assert result["best"]["latency_ms"] == pytest.approx(mean, rel=0.05)
    assert re.search(r"gemm-16: .* ms -> .* times as fast", run.stderr)
    path = Path(result["solution"])
    dataset = TraceDataset.read(root)
    assert dataset.solutions[path.stem].author == "kernelwright"
    assert "for the Workloads gemm-16, gemm-64; made from gemm_tilelang_cpu" in (
        dataset.solutions[path.stem].description or ""
    )
    run = kernelwright("evaluate", "--kernel", path, "--dataset", root, "--workload", "gemm-16", *HERE, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    (trace,) = TraceDataset.read(root).traces(GEMM)
    assert (trace.solution, trace.workload.uuid) == (path.stem, "gemm-16")


def test_references_are_timed_without_a_kernel(tmp_path: Path) -> None:
    """One that is not deterministic costs its row."""
    level = tmp_path / "bench" / "level1"
    level.mkdir(parents=True)
    source = (
        "import torch\nfrom torch import nn\nclass Model(nn.Module):\n    def forward(self, x):\n        return {}\n"
        "def get_inputs():\n    return [torch.randn(64, 64)]\ndef get_init_inputs():\n    return []\n"
    )
    eager = source.format("torch.tanh(x)").replace("    def", "    @torch.compiler.disable\n    def", 1)
    (level / "201_Tanh.py").write_text(eager)  # inductor takes half a minute to start
    (level / "202_Drop.py").write_text(source.format("nn.functional.dropout(x)"))
    run = kernelwright("optimize", "--list-slow", "--dataset", level.parent, *HERE, "--format", "json", cwd=tmp_path)
    assert run.returncode == 1
    (row,) = json.loads(run.stdout)
    assert row["problem"] == "level1/1_201.py"
    assert row["compile_ms"] is not None
    assert row["headroom"] == pytest.approx(min(row["eager_ms"], row["compile_ms"]) / row["floor_ms"])
    assert "level1/1_202: the reference of level1/1_202 fails: UnusableReference" in run.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--kernel", "gemm_cuda"), "is written in cuda; only Solutions in Triton or TileLang can be evaluated here"),
        (("--kernel", "gemm_tilelang"), "no Solution or Definition 'gemm_tilelang' .* nearest are gemm_tilelang_cpu"),
        (("--kernel", BAG, "--backend", "tilelang_cpu"), "has no Solution for tilelang_cpu; add one"),
        (("--kernel", "gemm_tilelang_cpu", "--workload", "big"), "has no Workload big; it has gemm-16, gemm-64"),
        (("--kernel", "gemm_tilelang_cpu", "--protocol", "both"), "KernelBench's protocol has no Traces"),
        (("--kernel", "mine.py", "--problem", GEMM), "mine.py: no such file"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    root = copied(tmp_path)
    run = kernelwright("evaluate", *arguments, "--dataset", root, "--device", "cpu", cwd=tmp_path)
    assert re.search(message, refused(run))
    assert not (root / "traces").exists()
