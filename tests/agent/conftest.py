"""What tests of rewritten kernels share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kernelwright.evaluators.reference.client import ReferenceClient

from .made_up import Bench


@pytest.fixture
def own_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are compared on the problem's own inputs alone: an interpreter takes long for ten more calls."""
    monkeypatch.setattr(ReferenceClient, "distributions", ())
    monkeypatch.setattr(ReferenceClient, "remarks", ())


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.journal.close()
