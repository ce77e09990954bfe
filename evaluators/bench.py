"""This side of the candidate: load a kernel into a worker, check it, time it, replace the worker when it dies."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ..core import Config, Correctness, Kernel, Status
from .answers import Loaded, Ran, Timed
from .channel import Message
from .judging import Judge
from .limits import Limits
from .sampling import Timer
from .worker import Worker, WorkerDied, WorkerTimeout

Answer = TypeVar("Answer", bound=BaseModel)


class Failure(Exception):
    """A candidate that did not pass, on its way to becoming an `Evaluation`."""

    def __init__(self, status: Status, message: str, correctness: Correctness | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.correctness = correctness
        self.config: Config | None = None
        """Which of several configs it was, where they are timed in turn."""


@dataclass(frozen=True)
class Checked:
    """A config that is loaded and was found right."""

    correctness: Correctness
    compile_s: float
    """Seconds that loading and compiling took."""
    time: Timer
    """Times its calls; raises `Failure`."""


class Bench:
    """One kernel, with many configs one after the other in the same worker.

    A config that crashes, hangs or fails at run time costs a new worker and nothing else. `share` hands outputs
    to the judge as device memory; it is given up for files when the judge cannot open it.
    """

    def __init__(self, kernel: Kernel, limits: Limits, new_worker: Callable[[], Worker], share: bool = False) -> None:
        self.kernel = kernel
        self._limits = limits
        self._new_worker = new_worker
        self._worker: Worker | None = None
        self._serial = 0
        self._share = share

    @property
    def worker(self) -> Worker:
        if self._worker is None or not self._worker.alive:
            self.close()
            self._worker = self._new_worker()
        return self._worker

    def start(self) -> None:
        """Start a worker now, before there is anything for it to do."""
        _ = self.worker

    @property
    def alive(self) -> bool:
        """Whether it has a worker that can go on."""
        return self._worker is not None and self._worker.alive

    @property
    def log(self) -> str:
        """What the kernel and its compiler printed last."""
        return self._worker.log if self._worker else ""

    def check(
        self, judge: Judge, config: Config, seeds: Sequence[int], keep: bool = False, ahead_s: float | None = None
    ) -> Checked:
        """Compile the kernel at a config and compare it with the reference for every seed. Raises `Failure`.

        `keep` leaves the configs that were checked before loaded, to be timed in turn with this one. `ahead_s` is
        what compiling took already; without it, it is what the first call takes beyond a later one.
        """
        start = time.perf_counter()
        self._serial += 1
        serial, worker = self._serial, self.worker
        path = worker.folder / f"kernel_{serial}.py"
        path.write_text(self.kernel.bind(config).source)
        self._ask(Loaded, self._limits.compile_s, "load", source=str(path), serial=serial, keep=keep)
        compared: list[Message] = []
        first_call_s, later_call_s = 0.0, 0.0
        for trial, seed in enumerate(seeds):
            spent = time.perf_counter() - start
            allowed = self._limits.call_s if trial else max(1.0, self._limits.compile_s - spent)
            ran, verdict = self._run(judge, serial, seed, allowed)
            if trial == 0:
                first_call_s, load_s = ran.seconds, spent
            else:
                later_call_s = ran.seconds
            self._require_ok(verdict, seeds[: trial + 1], compared)
            compared.append(verdict)
        compile_s = load_s + (max(0.0, first_call_s - later_call_s) if ahead_s is None else ahead_s)
        return Checked(_summary(compared, seeds, passed=True), compile_s, partial(self._time, serial, config))

    def close(self) -> None:
        """End the worker and everything that it started, and remove its files."""
        if self._worker is not None:
            self._worker.discard()

    def _run(self, judge: Judge, serial: int, seed: int, seconds: float) -> tuple[Ran, Message]:
        """One call, and what the judge says of its outputs."""
        folder = self.worker.folder
        state, outputs = folder / "state.pt", folder / "outputs.bin"
        judge.call("state", seed=seed, path=str(state))
        request = {"serial": serial, "seed": seed, "state": str(state), "outputs": str(outputs)}
        ran = self._ask(Ran, seconds, "run", share=self._share, **request)
        verdict = judge.call("check", seed=seed, path=str(outputs), outputs=ran.described())
        if self._share and verdict.get("unreadable"):
            self._share = False
            return self._run(judge, serial, seed, seconds)
        with contextlib.suppress(OSError):
            outputs.unlink()
        return ran, verdict

    def _require_ok(self, verdict: Message, seeds: Sequence[int], before: Sequence[Message]) -> None:
        status = Status(verdict["status"])
        if status is Status.OK:
            return
        figures = [*before, verdict] if "max_abs_error" in verdict else list(before)
        correctness = _summary(figures, seeds[: len(figures)], passed=False) if figures else None
        # It may have written where it should not have; that must not reach the next config.
        self.worker.end()
        raise Failure(status, verdict["message"], correctness)

    def _time(self, serial: int, config: Config, samples: int) -> Message:
        try:
            return self._ask(Timed, self._limits.call_s, "time", serial=serial, samples=samples).model_dump()
        except Failure as failure:
            failure.config = config
            raise

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
