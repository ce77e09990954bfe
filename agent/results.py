"""The files that a run leaves: the optimized kernel, the history, the journal."""

from __future__ import annotations

import ast
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core import Evaluation, Kernel, Problem, ResultsError
from .turn import Turn

HEADER = ("Problem Name:", "Evaluation Result:")


class Results:
    """A results folder: `level2/2_10_optimized_1.234x.py`, and histories and journals in multiturn_logs/.

    Raises `ResultsError` when the folder cannot be written.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.logs = root / "multiturn_logs"
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.logs) as probe:
                probe.write(b"\0" * 4096)
        except OSError as error:
            raise ResultsError(
                f"cannot write results folder {root}: {error.strerror}; choose another one with --results"
            ) from None

    def journal_path(self, problem: Problem, backend: str) -> Path:
        """Where the run of a problem keeps its journal."""
        return self.logs / f"journal_{problem.name}_{backend}.jsonl"

    def save_kernel(self, problem: Problem, kernel: Kernel, best: Evaluation, start: Evaluation) -> Path:
        """Write the kernel with the evidence in its header; the file's name tells the speedup."""
        assert best.speedup is not None
        level, short = problem.id.rsplit("/", 1) if "/" in problem.id else ("", problem.id)
        # A speedup that other processes disturbed is nothing to put a name on.
        figure = f"{best.speedup.ratio:.3f}x" if best.contention is None else "disturbed"
        path = self.root / level / f"{short}_optimized_{figure}.py"
        return self._write(path, with_evidence(kernel.source, problem, best, start))

    def save_history(self, problem: Problem, backend: str, turns: Sequence[Turn]) -> Path:
        """Write one JSON object per turn; only Triton's name stands in the file's, beside TileLang's history."""
        suffix = "_triton" if backend == "triton" else ""
        path = self.logs / f"optimization_history_{problem.name}{suffix}.json"
        return self._write(path, json.dumps([turn.record() for turn in turns], indent=2) + "\n")

    def _write(self, path: Path, text: str) -> Path:
        """Whole or not at all: a reader never sees half a file."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", suffix=".part", delete=False) as file:
                file.write(text)
            Path(file.name).chmod(0o644)
            os.replace(file.name, path)
        except OSError as error:
            raise ResultsError(
                f"cannot write {path}: {error.strerror}; choose another folder with --results and --resume"
            ) from None
        return path


def evidence(problem: Problem, best: Evaluation, start: Evaluation) -> dict[str, Any]:
    """What the header of an optimized kernel says, with the words that KernelBench's users know."""
    assert best.speedup is not None and best.correctness is not None and best.reference is not None
    return {
        "compiled": True,
        "correctness": True,
        "speedup_ratio": round(best.speedup.ratio, 4),
        "interval": [round(best.speedup.low, 4), round(best.speedup.high, 4)],
        "latency_ms": best.latency_ms,
        "reference_ms": best.reference.median_ms,
        "start_latency_ms": start.latency_ms,
        "samples": len(best.measurement.samples_ms) if best.measurement else 0,
        "seeds": list(best.correctness.seeds),
        "max_abs_error": best.correctness.max_abs_error,
        "tolerance": best.correctness.tolerance,
        "workload": problem.workload,
        "sizes": dict(problem.sizes),
        **({} if best.contention is None else {"contention": best.contention}),
        **best.environment,
    }


def with_evidence(source: str, problem: Problem, best: Evaluation, start: Evaluation) -> str:
    """The source with a docstring that opens with the problem's name and the evaluation's result."""
    tree = ast.parse(source)
    described = ast.get_docstring(tree) or ""
    kept = "\n".join(line for line in described.splitlines() if not line.startswith(HEADER)).strip()
    lines = [f"{HEADER[0]} {problem.name}", f"{HEADER[1]} {evidence(problem, best, start)!r}"]
    text = "\n".join([*lines, *(["", kept] if kept else [])]).strip()
    body = source
    if described:
        end = tree.body[0].end_lineno or 0
        body = "\n".join(source.splitlines()[end:])
    quoted = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'"""\n{quoted}\n"""\n{body if body.startswith(chr(10)) else chr(10) + body}'.rstrip() + "\n"
