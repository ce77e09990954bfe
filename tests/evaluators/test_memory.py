"""Peak memory of an evaluation's phases, counted in bytes on a CPU, in multiples of the input (as large as the output).

On a GPU candidate and reference share the memory; here outputs go through a file, which is one more copy.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from kernelwright.evaluators.workers.memory import FIELD, DeviceMemory, RequestMemory

PHASES = Path(__file__).parent / "memory_phases.py"
BY_WORKER = {
    "elementwise": {"reference": 6.2, "candidate": 4.2, "replayer": 5.2},
    "batch_norm": {"reference": 7.1, "candidate": 3.2, "replayer": 4.2},
    "pool": {"reference": 3.3, "candidate": 2.2, "replayer": 3.2},
}
"""Batch norm mixes the samples of a batch, so its fp64 result is computed whole; the output of the pool is small. On a
CPU a process that replays reads what it is handed into memory between walls, which is one copy of its own."""
TOGETHER = {"elementwise": 9.4, "batch_norm": 9.4, "pool": 6.3}
"""At most while timed outputs of a kernel that is not replayed are compared: on a GPU two inputs less."""


def test_the_peak_is_that_of_all_workers_at_one_time() -> None:
    memory = DeviceMemory()
    for worker, peak, held in ((1, 10, 4), (2, 7, 5), (1, 6, 0)):
        memory.note(worker, {FIELD: [peak, held]})
    assert memory.peak_bytes == 11  # 7 beside the 4 that the first holds, and 6 beside 5
    memory.restart()
    memory.note(1, {})  # on a CPU
    memory.note(1, {FIELD: ["many", -1]})
    assert memory.peak_bytes is None
    memory.forget(2)
    memory.note(1, answer := {FIELD: [3, 3], "ok": True})
    assert memory.peak_bytes == 3 and answer == {"ok": True}


def test_a_request_asks_torch_for_its_memory_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By name each figure costs a sorted list of all of them: 0.1 ms, twice in each of some hundred requests."""
    asked = []

    def nested() -> dict[str, object]:
        asked.append("all")
        return {"reserved_bytes": {"all": {"peak": 9, "current": 4}}}

    monkeypatch.setattr("torch.cuda.memory_stats_as_nested_dict", nested)
    assert RequestMemory("cuda").described() == {FIELD: [9, 4]} and asked == ["all"]
    monkeypatch.setattr("torch.cuda.memory_stats_as_nested_dict", dict)  # before the GPU is opened
    assert RequestMemory("cuda").described() == {FIELD: [0, 0]} and RequestMemory("cpu").described() == {}


@pytest.fixture(scope="module")
def measured() -> dict[str, dict[str, dict[str, float]]]:
    """The peaks of each phase, by model."""
    ran = subprocess.run([sys.executable, str(PHASES)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, dict[str, dict[str, float]]] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("model", BY_WORKER)
def test_large_tensors_are_not_kept_twice(model: str, measured: dict[str, dict[str, dict[str, float]]]) -> None:
    peaks = measured[model]
    for worker, most in BY_WORKER[model].items():
        found = {name: peak["peak"] for name, peak in peaks.items() if name.startswith(worker)}
        assert max(found.values()) <= most, found
    assert max(peak["both"] for peak in peaks.values()) <= TOGETHER[model], peaks
    replayed = [name for name in peaks if name.startswith("reference replay 1")]
    freed = ("reference release", "candidate release", "reference open", "reference check 0", "reference count")
    for name in (*freed, *replayed):
        assert peaks[name]["left"] < 0.1, (name, peaks[name])
