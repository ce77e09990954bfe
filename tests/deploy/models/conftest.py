"""A store of the test's own, with caches of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from kernelwright.deploy.models.store import RegionStore


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RegionStore]:
    monkeypatch.setenv("KERNELWRIGHT_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    torch.compiler.reset()
    yield RegionStore([tmp_path / "store"])
    torch.compiler.reset()
