"""What tests of rewritten kernels share."""

from __future__ import annotations

import pytest
from kernelwright.evaluators.reference.client import ReferenceClient


@pytest.fixture
def own_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are compared on the problem's own inputs alone: an interpreter takes long for ten more calls."""
    monkeypatch.setattr(ReferenceClient, "distributions", ())
    monkeypatch.setattr(ReferenceClient, "remarks", ())
