"""Runs the phases of an evaluation on a CPU and prints the peak memory of each as JSON, by model, in multiples of the
input.

    python memory_phases.py

Both workers run in this process, one after the other as in an evaluation; tensors belong to the worker that made them.
Sizes that separate large from small are scaled down, so that an input of 4 MiB is a large one.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from kernelwright.evaluators.candidate.worker import CandidateWorker
from kernelwright.evaluators.correctness import digest, errors, exact_parts, inputs
from kernelwright.evaluators.reference.arithmetic import Arithmetic
from kernelwright.evaluators.reference.worker import LoadedWorkload
from kernelwright.evaluators.replay import random_bytes, walled_memory
from kernelwright.evaluators.replay.worker import ReplayWorker
from kernelwright.evaluators.timing.priority import Scheduling
from kernelwright.evaluators.workers import memory
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

INPUT = 4 << 20
REFERENCE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(512)

    def forward(self, x):
        return {forward}


def get_inputs():
    return [torch.randn(2048, 512)]


def get_init_inputs():
    return []
"""
FORWARD = {
    "elementwise": "x * torch.sigmoid(x)",
    "batch_norm": "self.norm(x)",
    "pool": "x.unflatten(1, (8, 64)).mean(2)",
}


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of tensors that are alive, and their peak, by the worker that made them."""

    def __init__(self) -> None:
        super().__init__()
        self.owner = ""
        self.live: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()
        self._known: dict[int, tuple[int, int]] = {}  # begin and end

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and tensor.device.type != "meta":
                self._count(tensor.untyped_storage())
        return result

    def _count(self, storage: Any) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._known:
            return
        begin = storage.data_ptr()
        if any(low <= begin < high for low, high in self._known.values()):
            return  # a part of memory that is counted as a whole, as tensors between walls are
        self._known[key] = begin, begin + size
        self._add(self.owner, size)
        weakref.finalize(storage, self._free, key, self.owner, size)

    def _free(self, key: int, owner: str, size: int) -> None:
        self._known.pop(key, None)
        self._add(owner, -size)

    def _add(self, owner: str, size: int) -> None:
        for name in (owner, "both"):
            self.live[name] += size
            self.peak[name] = max(self.peak[name], self.live[name])


class Phases:
    """Calls a worker's handlers and notes the peak of each."""

    def __init__(self, tracker: LiveBytes) -> None:
        self._tracker = tracker
        self.peaks: dict[str, dict[str, float]] = {}

    def run(self, owner: str, handler: Callable[..., Any], name: str = "", **request: Any) -> Any:
        tracker = self._tracker
        tracker.owner = owner
        tracker.peak = tracker.live.copy()
        found = handler(**request)
        key = f"{owner} {name or handler.__name__}"
        before = self.peaks.get(key, {"peak": 0.0, "both": 0.0})
        self.peaks[key] = {
            "peak": max(before["peak"], round(tracker.peak[owner] / INPUT, 2)),
            "both": max(before["both"], round(tracker.peak["both"] / INPUT, 2)),
            "left": round(tracker.live[owner] / INPUT, 2),  # after the last call
        }
        return found


def scale_down() -> None:
    """Make everything that is bounded in bytes a small share of the input."""
    memory.LARGE = 1 << 19
    errors.CHUNK = 1 << 15
    inputs.MOST_FACTORS = 1 << 13
    exact_parts.PART = 1 << 18
    digest.ROW, digest.ROWS = 1 << 11, dict.fromkeys(digest.ROWS, 4)
    random_bytes.LENGTH = 1 << 10
    walled_memory.GUARD = walled_memory.PAGE


def measure(forward: str, folder: Path) -> dict[str, dict[str, float]]:
    """Return the peaks of all phases, by worker and request."""
    problem, kernel = folder / "problem.py", folder / "kernel.py"
    problem.write_text(REFERENCE.format(forward=forward))
    kernel.write_text(problem.read_text().replace("Model(nn", "ModelNew(nn"))
    options = {"problem": str(problem), "sizes": {}, "device": "cpu", "tolerances": {"float32": [1e-4, 1e-4]}}
    outputs, state = {"outputs": str(folder / "out"), "share": False}, str(folder / "state")
    with torch.no_grad(), LiveBytes() as tracker:
        phases = Phases(tracker)
        workload, candidate = LoadedWorkload(options, Arithmetic(), Scheduling()), CandidateWorker(options)
        reference = SimpleNamespace(**workload.handlers)
        phases.run("reference", reference.open)
        phases.run("reference", reference.distributions)
        phases.run("candidate", candidate.load, source=str(kernel), serial=1, keep=False)
        described: Any = None
        for number, (seed, distribution) in enumerate([(1, None), (2, None), (1, "heavy tails"), (1, None)]):
            name, first = f"run {number} {distribution or ''}".strip(), number == 0
            phases.run("reference", reference.state, seed=seed, path=state, share=False)
            phases.run("candidate", candidate.weights, serial=1, path=state, shared=None, written=[])
            described = phases.run(
                "candidate", candidate.run, name, serial=1, seed=seed, distribution=distribution, hold=first,
                written=[], **outputs,
            )["outputs"]  # fmt: skip
            verdict = phases.run(
                "reference", reference.check, name.replace("run", "check"), seed=seed, path=outputs["outputs"],
                outputs=described, distribution=distribution, precise=first, hold=first, written=[],
            )  # fmt: skip
            assert verdict["status"] == "ok", verdict
            assert not first or verdict["error_fp64"] < 1e-6, verdict
        held = phases.run("candidate", candidate.again, **outputs)["outputs"]
        assert phases.run("reference", reference.same, path=outputs["outputs"], outputs=held)["same"]
        phases.run("candidate", candidate.release)
        phases.run("candidate", candidate.operators, serial=1, seed=1)
        phases.run("reference", reference.remarks)
        plan, constants = str(folder / "plan"), str(folder / "constants")
        recorded = phases.run("candidate", candidate.record, serial=1, seed=1, plan=plan, constants=constants)
        assert recorded["reason"] is None, recorded
        phases.run("candidate", candidate.release)
        replayer = ReplayWorker("cpu")
        answer = phases.run("replayer", replayer.load_plan, number=1, plan=plan, constants=[], path=constants)
        assert answer["reason"] is None, answer
        way = {"folder": str(folder), "share": False}

        def prepare(handed: Any, weights: Any, watch: bool) -> None:
            handed = {name: handed[name] for name in ("calls", "inputs", "factors")}
            request = {"number": 1, "weights": weights, "restored": [], "graph": False, "watch": watch}
            prepared = phases.run("replayer", replayer.prepare, f"prepare {len(handed['calls'])}", **request, **handed)
            assert prepared["reason"] is None, prepared
            phases.run("replayer", replayer.go, f"go {len(handed['calls'])}")

        for seed, distribution in ((1, None), (1, "heavy tails"), (2, None)):
            drawn = {"seed": seed, "distribution": distribution}
            weights = phases.run("reference", reference.hand_weights, **drawn, **way)["weights"]
            handed = phases.run("reference", reference.hand_inputs, **drawn, **way)
            prepare(handed, weights, watch=True)
            found = phases.run(
                "replayer", replayer.outputs, calls=[0], path=outputs["outputs"], share=False, written=[]
            )  # fmt: skip
            phases.run("replayer", replayer.release, "release replayer")
            verdict = phases.run(
                "reference", reference.check, f"replay {seed} {distribution}", path=outputs["outputs"],
                outputs=found["outputs"][0], precise=(seed, distribution) == (1, None), written=[], **drawn,
            )  # fmt: skip
            assert verdict["status"] == "ok", verdict
        for seed in (3, 4):
            handed = phases.run("reference", reference.hand_calls, seed=seed, first=1, count=1, fresh=True, **way)
            prepare(handed, None, watch=False)
            phases.run("reference", reference.time, "time beside", samples=3, seed=9, graph=False)
        found = phases.run("replayer", replayer.outputs, calls=[0], path=outputs["outputs"], share=False, written=[])
        verdict = phases.run(
            "reference", reference.check_timed, "check timed replay", weights=2, drawn=[(4, None, 1)],
            path=outputs["outputs"], outputs=found["outputs"],
        )  # fmt: skip
        assert verdict["status"] == "ok", verdict
        phases.run("replayer", replayer.release)
        phases.run("reference", reference.release)
        phases.run("reference", reference.count)
        calls = phases.run("candidate", candidate.time, serial=1, samples=3, seed=5, graph=False)["calls"]
        phases.run("reference", reference.time, samples=3, seed=6, graph=False)
        calls = phases.run("candidate", candidate.time, serial=1, samples=3, seed=7, graph=False)["calls"]
        described = phases.run("candidate", candidate.timed_outputs, serial=1, **outputs)["outputs"]
        verdict = phases.run(
            "reference", reference.check_timed, weights=1, drawn=[(7, None, calls)], path=outputs["outputs"],
            outputs=[described],
        )  # fmt: skip
        assert verdict["status"] == "ok", verdict
        phases.run("candidate", candidate.release)
        phases.run("reference", reference.release)
    return phases.peaks


if __name__ == "__main__":
    scale_down()
    found = {}
    for model, forward in FORWARD.items():
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            found[model] = measure(forward, Path(folder))
    sys.stdout.write(json.dumps(found, indent=1))
