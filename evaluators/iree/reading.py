"""Tries in the sandbox whether IREE's parser survives a module, since the command's own process parses it next.

A module that nests too deeply for the parser's stack ends whatever process reads it; one of 40 KiB suffices.
"""

from __future__ import annotations

import os
import resource

from ...core import ProblemError
from ..workers.client import WorkerDiedError, WorkerTimeoutError, describe_exit
from .processes import IreeProcesses
from .target import find_compiler

READING_S = 60.0
_STACK_BYTES = 4 << 20


def require_readable(source: str, name: str, processes: IreeProcesses) -> None:
    """Raise `ProblemError` for a module at which IREE's parser crashes, hangs, or needs too much memory.

    It has half of this process's stack there, so that what it survives needs no more than there is here. What it
    refuses is not told here: reading it gives the message.
    """
    program = find_compiler().with_name("iree-opt")
    worker = processes.compiler()
    path = worker.inbox / "source.mlir"
    path.write_text(source)
    command = [str(program), "-", "-o", os.devnull]
    try:
        code = worker.call(READING_S, op="compile", command=command, source=str(path), stack=_stack()).get("code")
        why = describe_exit(code) if isinstance(code, int) and code < 0 else ""
    except WorkerTimeoutError:
        why = f"killed after {READING_S:g} s"
    except WorkerDiedError as died:
        why = str(died)
    finally:
        worker.discard()
    if why:
        raise ProblemError(f"IREE cannot read {name}: its parser was {why}; does it nest thousands of levels deep?")


def _stack() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return _STACK_BYTES if limit == resource.RLIM_INFINITY else min(_STACK_BYTES, limit // 2)
