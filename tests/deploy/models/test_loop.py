"""A model is recorded, a kernel for one of its regions is added to the store, and the model runs with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from ...cli.commands import kernelwright, refused
from ..results import result
from .regions import process

PROGRAM = """
import json, torch
from torch import nn
from kernelwright.deploy.models.backend import chosen, kernelwright

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(nn.functional.relu(self.up(self.norm(x))))

torch.manual_seed(0)
model, x = nn.Sequential(Block(), Block()).eval(), torch.randn(2, 4, 16)
with torch.no_grad():
    compiled = torch.compile(model, backend=kernelwright)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), model(x))
print(json.dumps(chosen()))
"""
KERNEL = """import functools

import tilelang
import tilelang.cpu.language as T
import torch


@functools.cache
def build(M, N, K):
    @T.prim_func
    def linear_relu(
        X: T.Tensor((M, K), "float32"),
        W: T.Tensor((N, K), "float32"),
        B: T.Tensor((N,), "float32"),
        Y: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1):
            for i in T.serial(M):
                for j in T.serial(N):
                    Y[i, j] = B[j]
                    for k in T.serial(K):
                        Y[i, j] = Y[i, j] + X[i, k] * W[j, k]
                    Y[i, j] = T.max(Y[i, j], 0.0)

    return tilelang.compile(linear_relu, out_idx=[-1], target="c", compile_flags=["-O3"])


class ModelNew(torch.nn.Module):
    def forward(self, x0, x1, x2):
        return build(8, 32, 16)(x1.view(8, 16), x2, x0).view(2, 4, 32)
"""
"""A linear layer with a ReLU, of the sizes of the model."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model's regions as problems, and a result for one of them."""
    folder = tmp_path_factory.mktemp("models")
    run = process(PROGRAM, folder, KERNELWRIGHT_RECORD="recorded")
    assert run.returncode == 0, run.stderr
    found = [path for path in (folder / "recorded").iterdir() if "aten.relu" in path.read_text()]
    assert len(found) == 1 and "It ran 6 times, in 2 places" in found[0].read_text()
    found[0].rename(folder / "region.py")
    measured = {"workload": "default", "sizes": {}, "compile_ms": 1.0, "torch": torch.__version__}
    measured["interval_compile"] = [1.9, 2.1]
    result(folder / "found.py", KERNEL, "region", **measured)
    result(folder / "slow.py", KERNEL, "region", **{**measured, "interval_compile": [1.01, 3.1]})
    result(folder / "alone.py", KERNEL, "region", **{**measured, "interval_compile": None})
    result(folder / "old.py", KERNEL, "region", **{**measured, "torch": "2.8.0"})
    result(folder / "wrong.py", KERNEL.replace("0.0)", "0.1)"), "region", **measured)
    return folder


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("slow.py", "is 2.000x [1.010, 3.100] as fast as Inductor's code; only what is beyond doubt 2% faster"),
        ("alone.py", "was not timed in turns with torch.compile; run `optimize` on it again"),
        ("old.py", "was measured with torch 2.8.0, here is"),
    ],
)
def test_results_that_do_not_enter(folder: Path, name: str, message: str) -> None:
    run = kernelwright("store", "add", name, "--problem", "region.py", "--folder", "none", cwd=folder)
    assert message in refused(run) and not (folder / "none").exists()


def test_a_result_of_another_problem_does_not_enter(folder: Path) -> None:
    run = kernelwright("store", "add", "found.py", "--problem", "level1/1_36", "--folder", "none", cwd=folder)
    assert "is not a region of a model" in run.stderr and run.returncode == 2


def test_the_whole_loop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_STORE", "store")
    wrong = kernelwright("store", "add", "wrong.py", "--problem", "region.py", cwd=folder)
    assert wrong.returncode == 2 and "WRONG" in wrong.stderr and not (folder / "store").exists()
    added = kernelwright("store", "add", "found.py", "--problem", "region.py", "--json", cwd=folder)
    assert added.returncode == 0, added.stderr
    (path,) = map(Path, json.loads(added.stdout)["written"])
    listed = json.loads(kernelwright("store", "list", "--json", cwd=folder).stdout)["entries"]
    assert [(row["entry"], row["gain"], row["problem"]) for row in listed] == [(path.stem, 2.0, "")]
    shown = kernelwright("store", "show", path.stem[:8], cwd=folder).stdout
    assert "def linear_relu(" in shown and "2x [1.9, 2.1] (0.5 ms, Inductor 1 ms), cpu" in shown
    verified = kernelwright("store", "verify", cwd=folder)
    assert verified.returncode == 0 and "ok, largest error" in verified.stdout
    exported = kernelwright("store", "export", "--output", "shared", cwd=folder)
    assert exported.returncode == 0 and (folder / "shared" / path.name).read_text() == (folder / path).read_text()
    run = process(PROGRAM, folder, KERNELWRIGHT_STORE="empty:shared")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout.splitlines()[-1])[1] == [path.stem]

    (folder / path).write_text("changed")
    assert kernelwright("store", "verify", cwd=folder).returncode == 1
    assert "damaged or forged" in kernelwright("store", "list", cwd=folder).stdout
    pruned = kernelwright("store", "prune", cwd=folder)
    assert pruned.returncode == 0 and "1 removed" in pruned.stdout and not (folder / path).exists()
    assert "no entry of the store begins with" in refused(kernelwright("store", "show", path.stem, cwd=folder))
