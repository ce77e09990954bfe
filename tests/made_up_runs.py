"""Journals of runs that are made up, and what the archive makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kernelwright.core import Config, Gain, Improvement, Kernel, PythonKernel, Trial
from kernelwright.core.archive import ArchivedRun, Experience
from kernelwright.core.signatures import SIGNED, own_key, signature

from .fakes import PROFILE, evaluation
from .rag.kernels import REGISTERS, TEXTBOOK

START, FOUND = PythonKernel.parse(TEXTBOOK), PythonKernel.parse(REGISTERS)
END = {
    "kind": "finished",
    "target_speedup": 2.0,
    "target_reached": True,
    "stopped": "nothing left to try",
    "start": {"status": "ok"},
}
WHERE = {"device": "a CPU", "backend": "tilelang_cpu"}


def _trial(kernel: Kernel, origin: str, ms: float | str, contention: float | None = None) -> dict[str, Any]:
    return Trial(origin=origin, evaluation=evaluation(kernel, Config(), ms, contention), seconds=1, at="2026").to_json()


def records(
    final_ms: float = 1.0, verified: bool = True, contention: float | None = None, problem: str = "level1/1_1"
) -> list[dict[str, Any]]:
    """The lines of a run that found a kernel of 1 ms where it began with one of 4 ms."""
    turn = {
        "strategy": "register-tile",
        "category": "compute",
        "rationale": "A tile stays in registers",
        "bottleneck_analysis": {"category": "compute", "work": "products", "latency_ms": 4.0},
    }
    tried = [
        {"strategy": "register-tile", "gain": 3.0, "statuses": ["ok"]},
        {"strategy": "licm", "gain": 0.0, "statuses": ["compile_error"], "error": "compile_error: no such name\nmore"},
        {"strategy": "fuse-passes", "gain": 0.9, "statuses": ["ok"]},
        {"strategy": "register-tile", "latency_ms": 1.0, "statuses": ["ok"]},
    ]
    return [
        {"kind": "run", "problem": problem, "kernel": START.digest, "reference": "0123456789abcdef", **WHERE},
        *({"kind": "kernel", "digest": kernel.digest, "source": kernel.source} for kernel in (START, FOUND)),
        _trial(START, "start", 4.0),
        {"kind": "profile", "profile": {**PROFILE.model_dump(mode="json"), "operators": ["mm"]}},
        _trial(FOUND, "turn 1: register-tile", 0.9),
        {"kind": "turn", "iteration": 1, **turn, "attempts": tried, "improved": True, "improvement": 3.4},
        {"kind": "turn", "iteration": 2, **turn, "rationale": "Useless.", "improved": False, "improvement": 0.0},
        _trial(START, "final: start", 4.0, contention),
        _trial(FOUND, "final", final_ms, contention),
        {**END, "verified": verified, "device": "a CPU", "best": {"status": "ok", "latency_ms": final_ms}},
    ]


def journal(
    folder: Path, lines: list[dict[str, Any]], name: str = "1_P_tilelang_cpu", key: bytes | None = None
) -> Path:
    """Write a journal into a results folder, as a run of the user with this key does, by default the user's own."""
    path, last, signed = folder / "multiturn_logs" / f"journal_{name}.jsonl", "", []
    for line in lines:
        last = signature(line, last, key or own_key())
        signed.append({**line, SIGNED: last})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in signed))
    return path


def archived_run(run: str = "a" * 16, speedup: float | None = 4.0, **changes: Any) -> ArchivedRun:
    """What the archive holds of such a run."""
    gain = Gain(before_ms=4.0, after_ms=1.0, speedup=speedup or 1.0, low=1.0, high=5.0, device="a CPU")
    better = Improvement(
        before=START.source,
        after=FOUND.source,
        gain=gain,
        category="compute",
        techniques=("register-tile",),
        story="A tile stays in registers.",
    )
    values: dict[str, Any] = {
        "run": run,
        "problem": "level1/1_1",
        **WHERE,
        "work": "products",
        "operators": ("mm",),
        "tried": (
            Experience(technique="register-tile", gain=4.0),
            Experience(technique="licm", gain=0.0, cause="compile_error: no such name"),
            Experience(technique="fuse-passes", gain=0.9),
        ),
        "improvement": better if speedup else None,
    }
    return ArchivedRun(**{**values, **changes})
