"""Triton's own cache on disk, for an H200 that is not there: a fresh process takes our choice without benchmarks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from kernelwright.core import Config
from kernelwright.corpus.functions.triton_cache import enter_products
from kernelwright.tuners.gemm.device import H200_LIMITS, Device
from kernelwright.tuners.gemm.shapes import Shape
from kernelwright.tuners.gemm.stores.store import ConfigEntry, ConfigKey
from kernelwright.tuners.gemm.stores.triton_cache import FUNCTION, MODULE, TIMES, TritonCache, workloads

READ = """
import sys
sys.path.insert(0, sys.argv[1])
from triton.runtime import autotuner, jit
from triton.runtime.driver import driver
from kernelwright.corpus.functions.triton_cache_program import _Driver
import torch
driver.set_active(_Driver(["cuda", 90, 32]))
jit.JITFunction.run = lambda self, *args, **options: None
def bench(*args, **options):
    raise SystemExit("it was benchmarked")
autotuner.Autotuner._bench = bench
from gemm_autotuned import gemm, tuned_gemm_kernel
for m in (16, 512):
    gemm(torch.randn(m, 64).half(), torch.randn(128, 64).half().t())
    print(tuned_gemm_kernel.best_config.kwargs["BLOCK_M"])
"""


def config(block_m: int) -> Config:
    sizes = {"BLOCK_SIZE_M": block_m, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1, "SPLIT_K": 1}
    return Config({**sizes, "NUM_WARPS": 4, "NUM_STAGES": 3, "VARIANT": "plain"})


def test_a_fresh_process_takes_our_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    about = ConfigKey("gemm", "float16", Device("NVIDIA H200", H200_LIMITS))
    small, large = config(16), config(128)
    # In the search another config looked faster than the choice, which won the final comparison.
    first = ConfigEntry(Shape(128, 64, 16), small, 1.0, {large: 0.9, small: 1.1})
    TritonCache().save(tmp_path, about, [first], {})
    TritonCache().save(tmp_path, about, [ConfigEntry(Shape(128, 64, 512), large, 2.0, {small: 5.0})], {})
    times = workloads(TritonCache().parse(tmp_path / TIMES))
    entered = enter_products(tmp_path / MODULE, FUNCTION, times, ("cuda", 90, 32))
    assert [path.name for path in entered] == ["tuned_gemm_kernel.autotune.json"] * 2
    fresh = subprocess.run([sys.executable, "-c", READ, str(tmp_path)], capture_output=True, text=True)
    assert fresh.stdout.split() == ["16", "128"], fresh.stderr
