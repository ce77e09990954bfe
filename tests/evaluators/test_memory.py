"""Peak memory of an evaluation's phases, counted in bytes on a CPU, in multiples of the input (as large as the output).

On a GPU candidate and reference share the memory; here outputs go through a file, which is one more copy.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PHASES = Path(__file__).parent / "memory_phases.py"
BY_WORKER = {"elementwise": {"reference": 5.2, "candidate": 5.1}, "batch_norm": {"reference": 7.1, "candidate": 5.1}}
"""Batch norm mixes the samples of a batch, so its fp64 result is computed whole."""
TOGETHER = {"elementwise": 8.3, "batch_norm": 9.1}


@pytest.fixture(scope="module")
def measured() -> dict[str, dict[str, dict[str, float]]]:
    """The peaks of each phase, by model."""
    ran = subprocess.run([sys.executable, str(PHASES)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, dict[str, dict[str, float]]] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("model", ["elementwise", "batch_norm"])
def test_large_tensors_are_not_kept_twice(model: str, measured: dict[str, dict[str, dict[str, float]]]) -> None:
    peaks = measured[model]
    for worker, most in BY_WORKER[model].items():
        found = {name: one["peak"] for name, one in peaks.items() if name.startswith(worker)}
        assert max(found.values()) <= most, found
    assert max(one["both"] for one in peaks.values()) <= TOGETHER[model], peaks
    for name in ("reference release", "candidate release", "reference open", "reference check 0", "reference count"):
        assert peaks[name]["left"] < 0.1, (name, peaks[name])
