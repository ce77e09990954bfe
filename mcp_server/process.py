"""Runs a job in a process of its own, so that a call can be given up: the process ends, and its workers with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import anyio
from anyio.abc import Process

from ..core import KernelwrightError
from . import messages
from .messages import Broken, Done, Refused, Request, Step

COMMAND = (sys.executable, "-P", "-m", "kernelwright.mcp_server.worker")
"""-P: a file of the user's that is called json.py must not be imported for the library."""
GRACE_S = 20.0
"""How long a job may take to end its workers and remove its folders, before it is killed."""
LINE_BYTES = 1 << 26


class JobBroke(Exception):
    """A job ended without a result, which is no mistake of the caller's."""


class OutOfTime(Exception):
    """A job was ended, since its seconds were over."""


async def run_job(request: Request, seconds: float, tell: Callable[[Step], Awaitable[None]]) -> Done:
    """Do a job within `seconds`; `tell` hears of each step.

    Raises `KernelwrightError` as the function of `api` does, `OutOfTime`, and `JobBroke`. However it ends, by
    cancellation too, the job's processes have ended before it returns.
    """
    with tempfile.TemporaryDirectory(prefix="kernelwright-mcp-") as folder:
        async with _started(Path(folder)) as process:
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
                        raise JobBroke(message.text)
                    await tell(message)
                raise JobBroke("its process ended without a result: out of memory, or killed")
            raise OutOfTime


@contextlib.asynccontextmanager
async def _started(folder: Path) -> AsyncIterator[Process]:
    # A session of its own: what ends the server by its process group must leave the job the time to clean up.
    process = await anyio.open_process(
        COMMAND, stdin=subprocess.PIPE, stderr=None, cwd=folder, env=_environment(), start_new_session=True
    )
    try:
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)


def _environment() -> dict[str, str]:
    """The server's own, in which modules are found from another working folder too."""
    path = [str(Path(entry).absolute()) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


async def _end(process: Process) -> None:
    """Close the job's input, which it takes for a Ctrl-C; kill it where that is not enough."""
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
    """The job's messages, one a line."""
    assert process.stdout is not None
    rest = b""
    async for chunk in process.stdout:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
        if len(rest) > LINE_BYTES:
            raise JobBroke("its process sent a message without an end")
