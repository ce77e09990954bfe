"""The backend on a GPU, with a Triton kernel in the store."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from kernelwright.deploy.models.backend import kernelwright
from kernelwright.deploy.models.reference import architecture
from kernelwright.deploy.models.store import RegionStore, version_of

from .regions import entry, regions

pytestmark = pytest.mark.gpu
KERNEL = """import torch
import triton
import triton.language as tl

from ..launch import launch as visible_launch


@triton.jit
def sine_kernel(x, y, size, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + places, 3.0 * tl.sin(tl.load(x + places, places < size)), places < size)


class ModelNew(torch.nn.Module):
    def forward(self, x0):
        y = torch.empty_like(x0)
        visible_launch(sine_kernel)[(triton.cdiv(x0.numel(), 256),)](x0, y, x0.numel(), BLOCK=256)
        return y
"""
"""Three times the sine, where the region has twice: so it shows which one ran."""


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_a_triton_kernel_of_the_store_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str | None) -> None:
    monkeypatch.setenv("KERNELWRIGHT_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    x = torch.randn(100, 7, device="cuda")
    (region,) = regions(lambda x: x.sin() * 2, x)
    found = entry(region)
    table = copy.deepcopy(found.table)
    table["kernels"][0]["device"] = "cuda"
    versions = {name: version_of(name) for name in ("torch", "triton")}
    changed = {"device": architecture("cuda"), "table": table, "versions": versions, "kernels": {"region_0": KERNEL}}
    RegionStore([tmp_path / "store"]).add(type(found)(**{**found.model_dump(), **changed}))
    torch.compiler.reset()
    compiled = torch.compile(lambda x: x.sin() * 2, backend=kernelwright, mode=mode)
    for _ in range(4):  # the first ones warm a CUDA graph up
        torch.testing.assert_close(compiled(x).clone(), 3 * x.sin())
    torch.compiler.reset()
