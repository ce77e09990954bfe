"""From a request to the command that serves it."""

from __future__ import annotations

from .request import Request


def run(request: Request) -> int:
    """The exit code of the command; a user's mistake raises `KernelwrightError`."""
    request.check()
    if request.list_slow:
        from .list_slow import run_list_slow

        return run_list_slow(request)
    if request.batch:
        from .batch import run_batch

        return run_batch(request)
    from .optimize import run_optimize

    return run_optimize(request)
