"""Programs in processes of their own that share the import of torch: they are forked from one that has it."""

from __future__ import annotations

import functools
import multiprocessing
import subprocess
from collections.abc import Sequence
from multiprocessing.context import ForkServerContext
from pathlib import Path

_REDIRECTED = """
import os, sys
os.chdir({cwd!r})
for number, name in enumerate(("stdout", "stderr"), 1):
    opened = os.open(f"{folder}/{{name}}", os.O_WRONLY | os.O_CREAT)
    os.dup2(opened, number)
sys.argv = {argv!r}
"""


@functools.cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch"])
    return context


def run_program(
    program: str, arguments: Sequence[str], cwd: Path, folder: Path, timeout_s: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run a program as `python -c` does; what it prints goes through files in `folder`."""
    text = _REDIRECTED.format(cwd=str(cwd), folder=folder, argv=["-c", *arguments]) + program
    process = _context().Process(target=exec, args=(text, {"__name__": "__main__"}))
    process.start()
    process.join(timeout_s)
    if process.is_alive():
        process.kill()
        process.join()
        raise TimeoutError(f"the program did not end in {timeout_s:g} s")
    said = [(folder / name).read_text() for name in ("stdout", "stderr")]
    return subprocess.CompletedProcess([], process.exitcode or 0, *said)
