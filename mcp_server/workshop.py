"""State that all tools share: folder, limits, device and runs. Each job runs in its own process.

So a call can be cancelled: the process ends with its workers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process

from ..core import KernelwrightError, OptionError
from ..core.file_locks import temporary_folder
from ..runtime.reading import Explanation
from . import messages
from .messages import Broken, Done, JobRequest, JobStep, Refused
from .places import Root, Runs

FINISH_S = 120.0
"""Extra seconds for a call to finish its last comparison and files."""
BEAT_S = 10.0
"""Seconds between progress reports; by default clients give up a silent call after a minute."""

Report = Callable[[float, float | None, str], Awaitable[None]]
"""A function of the progress, its total if known, and a line of text."""
KEPT = 64
"""Explanations of failures, of as many kernels."""
COMMAND = (sys.executable, "-P", "-m", "kernelwright.mcp_server.worker")
"""-P: a file of the user's that is called json.py must not be imported for the library."""
GRACE_S = 20.0
"""Seconds that a job may take to end its workers and remove its folders, before it is killed."""
LINE_BYTES = 1 << 26


@dataclass(frozen=True)
class ToolLimits:
    """The limits of the server."""

    trials: int
    seconds: float

    def trials_of(self, asked: int | None) -> int:
        """The evaluations of a call; raises `OptionError` for more than the server allows."""
        return self.trials if asked is None else int(_within("trials", asked, self.trials))

    def seconds_of(self, asked: float | None) -> float:
        """The seconds of a call; raises `OptionError` for more than the server allows."""
        return self.seconds if asked is None else _within("seconds", asked, self.seconds)


def _within(name: str, asked: float, most: float) -> float:
    if not 0 < asked <= most:
        raise OptionError(
            f"`{name}` must be above 0 and at most {most:g} on this server, not {asked:g}",
            f"its owner may start it with a larger max_{name}",
        )
    return asked


class Workshop:
    """Shared by all clients of a server. One job at a time has the device."""

    def __init__(self, root: Path, results: Path, limits: ToolLimits, measured: Mapping[str, Any]) -> None:
        self.root = Root(root)
        self.limits = limits
        self.runs = Runs(self.root, results)
        self.measured = measured
        """The options that no call can set: machines and thoroughness. Guards are on."""
        self.failures: dict[str, Explanation] = {}
        """By the name of the kernel, the latest last."""
        self._lock = anyio.Lock()

    async def do(
        self, job: str, options: Mapping[str, Any], seconds: float, report: Report, kernel: str = "", run: str = ""
    ) -> Done:
        """Run a job in its own process as soon as the device is free. `seconds` count from then on.

        Raises `KernelwrightError` for a mistake of the caller and at the time limit, `JobFailedError` for a bug of
        ours.
        """
        given = {"options": dict(options), "kernel": kernel, "run": run, "root": str(self.root.folder)}
        request, progress = JobRequest(job=job, options=given), ProgressReporter(report)
        done, error = None, None
        async with anyio.create_task_group() as group:
            group.start_soon(progress.beat)
            try:
                done = await self._with_device(request, seconds, progress)
            except (KernelwrightError, JobFailedError) as raised:  # a task group would wrap it
                error = raised
            except JobTimeoutError:
                error = KernelwrightError(
                    f"{job} was ended after {seconds:g} s", "ask for less work, or for more `seconds` if they allow it"
                )
            group.cancel_scope.cancel()
        if error is not None:
            raise error
        assert done is not None
        self._remember(kernel, done.explanation)
        return done

    async def _with_device(self, request: JobRequest, seconds: float, progress: ProgressReporter) -> Done:
        if self._lock.locked():
            await progress.tell(JobStep(done=0, total=None, text="waiting for the device: another call has it"))
        async with self._lock:
            return await run_job(request, seconds, progress.tell)

    def _remember(self, kernel: str, explanation: Explanation | None) -> None:
        self.failures.pop(kernel, None)
        if explanation is not None:
            self.failures[kernel] = explanation
            for oldest in list(self.failures)[:-KEPT]:
                del self.failures[oldest]


class ProgressReporter:
    """Reports the progress of a call to a client. Progress always increases, as the protocol demands."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._step = JobStep(done=0, total=None, text="")
        self._lines = 0
        """Lines since the last step ended."""
        self._since = anyio.current_time()

    async def tell(self, step: JobStep) -> None:
        """Report that a step of the job ended, or what it does."""
        if step.done > self._step.done:
            self._lines = 0
        self._step, self._since = step, anyio.current_time()
        await self._send(step.text)

    async def beat(self) -> None:
        """Repeat the latest line for ever, with the seconds since then."""
        while True:
            await anyio.sleep(BEAT_S)
            if self._step.text:
                await self._send(f"{self._step.text} ({anyio.current_time() - self._since:.0f} s)")

    async def _send(self, text: str) -> None:
        within = self._lines / (self._lines + 1)  # approaches the next step, which it never reaches
        self._lines += 1
        await self._report(self._step.done + within, self._step.total, text)


class JobFailedError(Exception):
    """A job ended without a result, through no fault of the caller."""


class JobTimeoutError(Exception):
    """A job reached its time limit."""


async def run_job(request: JobRequest, seconds: float, tell: Callable[[JobStep], Awaitable[None]]) -> Done:
    """Do a job within `seconds`; `tell` is called with each step.

    Raises `KernelwrightError` as the command does, `JobTimeoutError`, and `JobFailedError`. However it ends, by
    cancellation too, the job's processes have ended before it returns.
    """
    with temporary_folder("kernelwright-mcp-") as folder:
        async with _started(folder) as process:
            assert process.stdin is not None
            with anyio.move_on_after(seconds):
                await process.stdin.send(request.model_dump_json().encode() + b"\n")
                async for line in _lines(process):
                    message = messages.read(line)
                    if isinstance(message, Done):
                        return message
                    if isinstance(message, Refused):
                        raise KernelwrightError(message.message, message.hint)
                    if isinstance(message, Broken):
                        raise JobFailedError(message.text)
                    await tell(message)
                raise JobFailedError("its process ended without a result: out of memory, or killed")
            raise JobTimeoutError


@contextlib.asynccontextmanager
async def _started(folder: Path) -> AsyncIterator[Process]:
    # A new session: a signal to the server's process group must leave the job time to clean up.
    process = await anyio.open_process(
        COMMAND, stdin=subprocess.PIPE, stderr=None, cwd=folder, env=_environment(), start_new_session=True
    )
    try:
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)


def _environment() -> dict[str, str]:
    """Return the server's environment, with absolute import paths for another working folder."""
    path = [str(Path(entry).absolute()) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


async def _end(process: Process) -> None:
    """Close the job's input, which acts as Ctrl-C. Kill the job if it does not end."""
    assert process.stdin is not None
    with contextlib.suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.aclose()
    with anyio.move_on_after(GRACE_S):
        await process.wait()
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    await process.aclose()


async def _lines(process: Process) -> AsyncIterator[bytes]:
    """Yield the job's messages, one per line."""
    assert process.stdout is not None
    rest = b""
    async for chunk in process.stdout:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
        if len(rest) > LINE_BYTES:
            raise JobFailedError("its process sent a message without an end")
