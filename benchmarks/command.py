"""How every benchmark ends: a mistake is one line, as in the commands of `kernelwright`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from kernelwright.cli.execution import guarded


def run_benchmark(main: Callable[[], Any]) -> NoReturn:
    """Run a benchmark, whose `main` returns its exit code or nothing."""
    raise SystemExit(guarded(lambda: int(main() or 0)))
