"""`optimize --recorded`: regions are optimized within a limit, and what beats Inductor's code enters the store."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from kernelwright.commands import optimize_recorded as command
from kernelwright.commands._list_slow import SlowProblem, with_shares
from kernelwright.core.budget import Deadline
from kernelwright.corpus.problems import ProblemFile
from kernelwright.deploy.models.reference import CALLS, SHARE
from kernelwright.deploy.models.region import problem_source
from kernelwright.deploy.models.store import RegionStore

from ..cli.commands import kernelwright, refused
from ..deploy.models.regions import regions

KERNEL = """import functools

import tilelang
import tilelang.cpu.language as T
import torch


@functools.cache
def build(M, N, K):
    @T.prim_func
    def row_sums(
        X: T.Tensor((M, K), "float32"),
        W: T.Tensor((K, N), "float32"),
        S: T.Tensor((K,), "float32"),
        Y: T.Tensor((M,), "float32"),
    ):
        with T.Kernel(1):
            for k in T.serial(K):
                S[k] = 0.0
                for n in T.serial(N):
                    S[k] = S[k] + W[k, n]
            for m in T.serial(M):
                Y[m] = 0.0
                for k in T.serial(K):
                    Y[m] = Y[m] + X[m, k] * S[k]

    return tilelang.compile(row_sums, out_idx=[-2, -1], target="c", compile_flags=["-O3", "-ffast-math"])


class ModelNew(torch.nn.Module):
    def forward(self, x0, x1):
        return build(256, 1024, 256)(x0, x1)[1]
"""
"""Sums the weight's rows first; torch computes the product of which it takes sums."""
ROW = SlowProblem(2.0, "", 1.0, 1.0, 0.5, "", "default", "cpu", None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNELWRIGHT_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "recorded" / "kernels").mkdir(parents=True)
    return tmp_path


def record(folder: Path, name: str, share: float | None, calls: int = 1) -> Path:
    """A recorded region: sums of a product's rows."""
    (region,) = regions(lambda x, weight: (x @ weight).sum(-1), torch.rand(256, 256), torch.rand(256, 1024))
    drawn = ["torch.rand([256, 256])", "torch.rand([256, 1024])"]
    path = folder / "recorded" / f"region_{name}.py"
    figures = f"\n\n{CALLS} = {calls}\n" + (f"{SHARE} = {share}\n" if share is not None else "")
    path.write_text(problem_source(region, [], drawn) + figures)
    return path


def files(folder: Path) -> list[ProblemFile]:
    return [ProblemFile(str(path), path.stem, path) for path in sorted((folder / "recorded").glob("*.py"))]


def rows_of(folder: Path) -> list[SlowProblem]:
    return [dataclasses.replace(ROW, problem=str(file.path)) for file in files(folder)]


def test_shares_are_the_recorded_ones(folder: Path) -> None:
    small, large = record(folder, "a", 0.1, calls=900), record(folder, "b", 0.4)
    found = with_shares(rows_of(folder), files(folder))
    assert [(row.problem, row.share, row.calls) for row in found] == [(str(large), 0.4, 1), (str(small), 0.1, 900)]
    record(folder, "b", None)  # a region that ran before steps were repeated
    assert [row.share for row in with_shares(rows_of(folder), files(folder))] == [0.1, 0.0]
    record(folder, "a", None, calls=3)
    assert [row.share for row in with_shares(rows_of(folder), files(folder))] == [0.75, 0.25]


def test_the_limit_is_spread_by_what_there_is_to_gain() -> None:
    rows = [dataclasses.replace(ROW, share=share) for share in (0.6, 0.2, 0.001)]  # of which half can be gained
    assert command._given(Deadline(100), rows[0], rows) == pytest.approx(75, abs=8)
    assert command._given(Deadline(60), rows[1], rows[1:]) == pytest.approx(60, abs=8)
    assert command._given(Deadline(60), rows[2], rows[2:]) == 0


@pytest.mark.parametrize(
    ("results", "failed", "code"),
    [
        (["nothing faster was found", "nothing faster was found"], ["c: broken", "d: broken"], 3),
        ([command.FAILED, "nothing faster was found"], ["a: broken"], 3),
        ([command.FAILED], ["a: broken", "b: broken"], 1),
        ([], ["a: broken"], 1),
    ],
)
def test_it_fails_where_all_regions_do(results: list[str], failed: list[str], code: int) -> None:
    rows = tuple({"result": item, "entry": ""} for item in results)
    assert command.Result(regions=rows, failed=tuple(failed)).exit_code == code


def test_a_region_that_cannot_be_read_costs_itself_only(folder: Path) -> None:
    record(folder, "a", 0.5)
    (folder / "recorded" / "region_b.py").write_text("Model = (")
    arguments = ("optimize", "--recorded", "recorded", "--time-limit", 60, "--device", "cpu", "--model", "rules")
    run = kernelwright(*arguments, "--sandbox", "none", "--json", cwd=folder)
    (row,) = json.loads(run.stdout)["regions"]
    assert run.returncode == 1 and row["region"].endswith("region_a.py") and row["result"] == command.FAILED
    assert "region_b: " in run.stderr and "no tilelang_cpu kernel" in run.stderr and "Traceback" not in run.stderr


def test_bad_input_is_one_line(folder: Path) -> None:
    def message_of(*arguments: object) -> str:
        return refused(kernelwright("optimize", *arguments, cwd=folder))

    assert "--recorded needs a --time-limit; give the seconds" in message_of("--recorded", "recorded")
    assert "has no recorded regions; run the model with" in message_of("--recorded", "recorded", "--time-limit", 9)
    record(folder, "a", 0.5)
    assert "give one of" in message_of("--recorded", "recorded", "--kernel", "1_19", "--time-limit", 9)


@pytest.mark.timeout(900)
def test_what_beats_inductors_code_enters_the_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERNELWRIGHT_QUICK")  # what was not replayed does not enter
    path = record(folder, "a", 0.5)
    record(folder, "b", 0.001)
    (folder / "recorded" / "kernels" / path.name).write_text(KERNEL)
    arguments = ("optimize", "--recorded", "recorded", "--time-limit", 200, "--device", "cpu", "--model", "rules")
    arguments = (*arguments, "--max-trials", 2, "--sandbox", "none", "--json")
    run = kernelwright(*arguments, cwd=folder)
    assert run.returncode == 0, run.stderr
    first, second = json.loads(run.stdout)["regions"]
    assert Path(first["region"]).name == path.name and 0 < first["seconds"] <= 200
    assert "left as it is" in second["result"] and second["seconds"] is None
    (stored,) = RegionStore([folder / "store"]).files()
    assert stored.name == first["entry"] and stored.entry is not None and not stored.problem
    low, high = stored.entry.gain_interval
    assert 1.02 <= low <= stored.entry.gain <= high and f"[{low:.3f}, {high:.3f}]" in first["result"]

    again = kernelwright(*arguments, "--resume", cwd=folder)
    assert again.returncode == 0 and "finished before: region_a" in again.stderr
    assert json.loads(again.stdout)["regions"][0]["entry"] == stored.name
