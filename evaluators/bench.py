"""This side of the candidate: load a kernel into a worker, check it, time it, replace the worker when it dies."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ..core import Config, Correctness, Kernel, Status
from .answers import Loaded, Ran, Timed
from .channel import Message
from .judging import Judge
from .limits import Settings
from .worker import Worker, WorkerDied, WorkerTimeout

Answer = TypeVar("Answer", bound=BaseModel)


class Failure(Exception):
    """A candidate that did not pass, on its way to becoming an `Evaluation`."""

    def __init__(self, status: Status, message: str, correctness: Correctness | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.correctness = correctness


class Bench:
    """One kernel, with many configs one after the other in the same worker.

    A config that crashes, hangs or fails at run time costs a new worker and nothing else.
    """

    def __init__(self, kernel: Kernel, settings: Settings, new_worker: Callable[[], Worker]) -> None:
        self.kernel = kernel
        self._settings = settings
        self._new_worker = new_worker
        self._worker: Worker | None = None
        self._serial = 0

    @property
    def worker(self) -> Worker:
        if self._worker is None or not self._worker.alive:
            self.close()
            self._worker = self._new_worker()
        return self._worker

    @property
    def log(self) -> str:
        """What the kernel and its compiler printed last."""
        return self._worker.log if self._worker else ""

    def check(self, judge: Judge, config: Config, seeds: Sequence[int]) -> tuple[Correctness, float]:
        """Compile the kernel at a config and compare it with the reference for every seed.

        Returns the figures of the comparison and the seconds that compiling took. Raises `Failure`.
        """
        limits = self._settings.limits
        start = time.perf_counter()
        self._load(config)
        compared: list[Message] = []
        first_call_s, later_call_s = 0.0, 0.0
        for trial, seed in enumerate(seeds):
            state = self.worker.folder / "state.pt"
            outputs = self.worker.folder / "outputs.bin"
            judge.call("state", seed=seed, path=str(state))
            spent = time.perf_counter() - start
            allowed = limits.call_s if trial else max(1.0, limits.compile_s - spent)
            ran = self._ask(Ran, allowed, "run", seed=seed, state=str(state), outputs=str(outputs))
            if trial == 0:
                first_call_s, load_s = ran.seconds, spent
            later_call_s = ran.seconds
            compared.append(self._compare(judge, seed, ran.described(), outputs, seeds[: trial + 1], compared))
        correctness = _summary(compared, seeds, passed=True)
        return correctness, load_s + max(0.0, first_call_s - later_call_s)

    def time(self, samples: int) -> Message:
        """Time calls of the config that was checked last; a `sampling.Timer`. Raises `Failure`."""
        return self._ask(Timed, self._settings.limits.call_s, "time", samples=samples).model_dump()

    def close(self) -> None:
        """End the worker and everything that it started, and remove its files."""
        if self._worker is not None:
            self._worker.discard()

    def _load(self, config: Config) -> None:
        self._serial += 1
        worker = self.worker
        path = worker.folder / f"kernel_{self._serial}.py"
        path.write_text(self.kernel.bind(config).source)
        self._ask(Loaded, self._settings.limits.compile_s, "load", source=str(path), serial=self._serial)

    def _compare(
        self,
        judge: Judge,
        seed: int,
        described: list[Message],
        outputs: Path,
        seeds: Sequence[int],
        before: Sequence[Message],
    ) -> Message:
        verdict = judge.call("check", seed=seed, path=str(outputs), outputs=described)
        with contextlib.suppress(OSError):
            outputs.unlink()
        status = Status(verdict["status"])
        if status is not Status.OK:
            figures = [*before, verdict] if "max_abs_error" in verdict else list(before)
            correctness = _summary(figures, seeds[: len(figures)], passed=False) if figures else None
            # It may have written where it should not have; that must not reach the next config.
            self.worker.end()
            raise Failure(status, verdict["message"], correctness)
        return verdict

    def _ask(self, form: type[Answer], seconds: float, op: str, **arguments: Any) -> Answer:
        worker = self.worker
        try:
            answer = worker.call(seconds, op=op, **arguments)
        except WorkerTimeout:
            raise Failure(Status.TIMEOUT, f"did not finish within {seconds:.0f} s ({_STAGES[op]})") from None
        except WorkerDied as died:
            raise Failure(Status.CRASHED, f"the process {died} ({_STAGES[op]})") from None
        if answer.get("ok") is True:
            try:
                return form.model_validate(answer)
            except ValidationError:
                worker.end()
                raise Failure(Status.CRASHED, f"the process sent no proper answer ({_STAGES[op]})") from None
        error = str(answer.get("error", "the kernel's process gave no reason"))
        if answer.get("stage") == "compile" or op == "load":
            raise Failure(Status.COMPILE_ERROR, error)
        # Memory that it wrote to, or a device that it upset, must not reach the next config.
        worker.end()
        raise Failure(Status.RUNTIME_ERROR, error)


_STAGES = {"load": "loading the source", "run": "compiling or running", "time": "being timed"}


def _summary(compared: Sequence[Message], seeds: Sequence[int], passed: bool) -> Correctness:
    return Correctness(
        seeds=tuple(seeds),
        max_abs_error=max(message["max_abs_error"] for message in compared),
        max_rel_error=max(message["max_rel_error"] for message in compared),
        tolerance=max(message["tolerance"] for message in compared),
        passed=passed,
    )
