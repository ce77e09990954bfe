"""The client of compiling ahead: kernel texts in, compile results out, with several workers at once."""

from __future__ import annotations

import contextlib
import queue
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from enum import StrEnum

from pydantic import ValidationError

from ...core import Status
from ...core.source_text import without_separators
from ..candidate.responses import CompileResponse
from ..workers.channel import Message
from ..workers.client import Worker, WorkerDiedError, WorkerTimeoutError
from ..workers.shortages import ATTEMPTS, SHORTAGES


class CompileStatus(StrEnum):
    """The outcome of compiling ahead."""

    COMPILED = "compiled"
    FAILED = "failed"
    """A compiler refused the kernel."""
    TIMEOUT = "timeout"
    """It did not finish in time."""
    CRASHED = "crashed"
    """Its process died."""
    UNKNOWN = "unknown"
    """Unknown without running the kernel: compile it when measuring."""
    LOST = "lost"
    """The machine is why there is no outcome: somebody killed the compiler, or the disk is full."""


ENOUGH = 8
"""Kernels by which a pool knows what compiling takes."""
TIMES, LEAST_S = 20.0, 30.0
"""Limits of a compilation: this multiple of the median of the others, and at least this many seconds: a config whose
sums spill from the registers compiles for minutes, and is slow. Those that are given up count with the seconds that
they had, so that where most take long, the limit grows."""

VERDICTS = {
    CompileStatus.FAILED: Status.COMPILE_ERROR,
    CompileStatus.TIMEOUT: Status.TIMEOUT,
    CompileStatus.CRASHED: Status.CRASHED,
    CompileStatus.LOST: Status.NOT_MEASURED,
}
"""Status of a kernel that does not compile, by the status of its compilation."""


@dataclass(frozen=True)
class CompileResult:
    """The outcome for one kernel text; metrics exist only when it compiled."""

    status: CompileStatus
    message: str = ""
    digest: str | None = None
    """Equal for kernels whose calls do the same work."""
    seconds: float | None = None
    signatures: tuple[tuple[str, ...], ...] = ()
    """Types of the parameters of its launches, for `LanguageSupport.build_helpers`."""
    log: str = ""
    """The compiler's last output, where it refused the kernel."""
    elsewhere: CompileResult | None = None
    """The outcome at the second workload's sizes, where it was compiled for them too."""

    @property
    def refused(self) -> bool:
        """Whether the kernel need not be tried on the device: unlike a crash, this is the compiler's own verdict."""
        return self.status in (CompileStatus.FAILED, CompileStatus.TIMEOUT)

    @property
    def ok(self) -> bool:
        """Whether the kernel compiled."""
        return self.status is CompileStatus.COMPILED

    @property
    def is_verdict(self) -> bool:
        """Whether the kernel does not compile, so that measuring it would fail too."""
        return self.status in VERDICTS


class CompilePool:
    """`count` workers of the role 'compiler', started at once; each compiles one kernel at a time.

    `seconds` limits one kernel's compilation; what takes far longer than most others before it is given up sooner. A
    kernel is identified by its text: a text that was submitted before is not compiled again.
    """

    def __init__(self, new_worker: Callable[[], Worker], count: int, seconds: float) -> None:
        self._new_worker = new_worker
        self._seconds = seconds
        self._waiting: queue.SimpleQueue[tuple[str, Future[CompileResult]] | None] = queue.SimpleQueue()
        self._known: dict[str, Future[CompileResult]] = {}
        self._lock = threading.Lock()
        self._workers: set[Worker] = set()
        self._took: list[float] = []
        self._closed = False
        self._threads = [threading.Thread(target=self._serve, name=f"compile-{i}", daemon=True) for i in range(count)]
        for thread in self._threads:
            thread.start()

    def submit(self, source: str) -> Future[CompileResult]:
        """Compile a bound kernel's text; texts are compiled in the order of their submission.

        The future raises `DeviceError` when no worker could be started, and is cancelled by `close`.
        """
        with self._lock:
            if self._closed:
                raise RuntimeError("the pool is closed")
            if source not in self._known:
                self._known[source] = Future()
                self._waiting.put((source, self._known[source]))
            return self._known[source]

    def close(self) -> None:
        """Cancel what waits, end the workers and their processes, and remove their files."""
        with self._lock:
            self._closed = True
            for future in self._known.values():
                future.cancel()
            workers = list(self._workers)
        for worker in workers:  # all at once: each takes ten milliseconds to be gone
            worker.kill()
        for worker in workers:
            worker.end()
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        """Run one thread: it keeps its worker over many kernels and replaces it when it has died."""
        worker: Worker | None = None
        serial = 0
        with contextlib.suppress(Exception):  # reported where a kernel waits for it
            worker = self._start()
        while (item := self._waiting.get()) is not None:
            source, future = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                for attempt in range(1, ATTEMPTS + 1):
                    if worker is None or not worker.alive:
                        self._discard(worker)
                        worker = self._start()
                    serial += 1
                    result = self._compile(worker, source, serial)
                    if result.status is not CompileStatus.LOST or attempt == ATTEMPTS:
                        break
                if result.status is CompileStatus.LOST:  # its own worker shows who is to blame
                    result = CompileResult(CompileStatus.UNKNOWN, result.message)
                future.set_result(result)
            except Exception as error:  # raised again by the future
                future.set_exception(error)
        self._discard(worker)

    def _start(self) -> Worker:
        worker = self._new_worker()
        with self._lock:
            self._workers.add(worker)
            closed = self._closed
        if closed:
            self._discard(worker)
            raise CancelledError
        return worker

    def _discard(self, worker: Worker | None) -> None:
        if worker is not None:
            with self._lock:
                self._workers.discard(worker)
            worker.discard()

    def _compile(self, worker: Worker, source: str, serial: int) -> CompileResult:
        # Errors quote the lines of files under a folder of this name only.
        folder = worker.inbox / "candidate-source"
        folder.mkdir(exist_ok=True)
        path = folder / f"kernel_{serial}.py"
        path.write_text(without_separators(source))
        limit, began = self._limit(), time.monotonic()
        try:
            answer = worker.call(limit, op="compile", source=str(path), serial=serial)
            if answer.get("ok") is True:
                self._took.append(time.monotonic() - began)
        except WorkerTimeoutError:
            others = f"; half of the others took {statistics.median(self._took):.1f} s" if limit < self._seconds else ""
            self._took.append(limit)
            return CompileResult(CompileStatus.TIMEOUT, f"did not finish within {limit:.0f} s (compiling){others}")
        except (WorkerDiedError, OSError) as error:
            if self._closed:  # ended by `close`, not by itself
                raise CancelledError from None
            if isinstance(error, OSError):
                raise
            status = CompileStatus.LOST if error.killed else CompileStatus.CRASHED
            return CompileResult(status, error.cause or f"the process {error} (compiling)")
        finally:
            with contextlib.suppress(OSError):
                path.unlink()
        found = _read(worker, answer)
        # A compiler that lacks disk or files refuses nothing: the kernel's own worker shows whether that is so.
        lacking = found.status is CompileStatus.FAILED and any(said in found.message + found.log for said in SHORTAGES)
        return CompileResult(CompileStatus.UNKNOWN, found.message) if lacking else found

    def _limit(self) -> float:
        """Return the seconds that the next kernel may take."""
        if len(self._took) < ENOUGH:
            return self._seconds
        return min(self._seconds, max(LEAST_S, TIMES * statistics.median(self._took)))

    def __enter__(self) -> CompilePool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read(worker: Worker, answer: Message) -> CompileResult:
    if answer.get("ok") is True:
        try:
            return CompileResult(CompileStatus.COMPILED, **CompileResponse.model_validate(answer).model_dump())
        except ValidationError:
            # The kernel's source has written into the channel, so no response of this process is valid any more.
            worker.end()
            return CompileResult(CompileStatus.CRASHED, "the process sent no proper answer (compiling)")
    error = str(answer.get("error", "the compiling process gave no reason"))
    if answer.get("stage") == "compile":
        return CompileResult(CompileStatus.FAILED, error, log=worker.log)
    return CompileResult(CompileStatus.UNKNOWN, error)
