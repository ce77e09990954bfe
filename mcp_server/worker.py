"""The process of one job: `python -m kernelwright.mcp_server.worker`.

The request comes as a line on standard input, and messages go to standard output. The end of the input ends the job as
Ctrl-C would: its workers end, and what it found so far is written.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback

from ..api.interruption import interruptible
from ..core import KernelwrightError
from .jobs import find_job
from .messages import Broken, Message, Refused, Request, Wire


def main() -> None:
    """Do the job that standard input asks for."""
    wire = Wire(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # what libraries print must not come between the messages
    request = Request.model_validate_json(_first_line())
    over = threading.Event()
    with contextlib.suppress(KeyboardInterrupt), interruptible():
        threading.Thread(target=_end_with_input, args=(over,), daemon=True).start()
        message = _done(request, wire)
        over.set()
        wire.send(message)


def _done(request: Request, wire: Wire) -> Message:
    try:
        return find_job(request.job)(request.options, wire)
    except KernelwrightError as error:
        return Refused(message=error.message, hint=error.hint)
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        return Broken(text=f"{type(error).__name__}: {error}")


def _first_line() -> bytes:
    """The request; nothing follows it but the end."""
    line = b""
    while not line.endswith(b"\n"):
        chunk = os.read(0, 1 << 16)
        if not chunk:
            sys.exit(1)
        line += chunk
    return line


def _end_with_input(over: threading.Event) -> None:
    while os.read(0, 1 << 16):
        continue
    if not over.is_set():
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
