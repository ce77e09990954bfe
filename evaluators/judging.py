"""This side of the judge: the reference's process, whose failures are the problem's fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..core import Problem, ProblemError
from ..core.files import write_whole
from .channel import Message
from .worker import Worker, WorkerDied, WorkerTimeout

PATIENCE_S = 600.0
"""The reference is trusted; this only ends a wait that would be for ever."""


def problem_options(problem: Problem, folder: Path) -> dict[str, Any]:
    """What a worker must know to load a problem; its source is written to `folder`."""
    path = folder / f"{problem.name}.py"
    # Replaced whole: a worker that was started a moment ago may be reading it.
    write_whole(path, problem.source, "make room there, or set TMPDIR to another folder")
    return {"problem": str(path), "sizes": dict(problem.sizes)}


class Judge:
    """The reference of one problem, ready to give weights, to compare and to be timed.

    Raises `ProblemError` when the reference itself fails.
    """

    def __init__(self, problem: Problem, worker: Worker) -> None:
        self.problem = problem
        self._worker = worker
        self.environment: dict[str, str] = self.call("open")["environment"]

    def call(self, op: str, **arguments: Any) -> Message:
        """Ask the judge's process."""
        try:
            answer = self._worker.call(PATIENCE_S, op=op, **arguments)
        except WorkerTimeout:
            raise ProblemError(f"the reference of {self.problem.id} did not end in {PATIENCE_S:g} s") from None
        except WorkerDied as died:
            raise ProblemError(
                f"the reference of {self.problem.id} {died}; its last words: "
                f"{self._worker.log.splitlines()[-1:] or 'none (out of memory? --workload sets smaller sizes)'}"
            ) from None
        if not answer["ok"]:
            self.close()
            reason = " ".join(answer["error"].split())
            raise ProblemError(f"the reference of {self.problem.id} fails: {reason}")
        return answer

    def time(self, samples: int) -> Message:
        """Time the reference; a `sampling.Timer`."""
        return self.call("time", samples=samples)

    @property
    def pid(self) -> int:
        return self._worker.pid

    @property
    def alive(self) -> bool:
        return self._worker.alive

    def close(self) -> None:
        self._worker.end()
