"""Shared parts of `optimize` and `batch`: a session of runs, its settings, and the result of a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...core.events import Emit
from .settings import SessionSettings

if TYPE_CHECKING:
    from .kernel_optimizer import KernelOptimizer


@contextlib.contextmanager
def open_optimizer(settings: SessionSettings, emit: Emit) -> Iterator[KernelOptimizer]:
    """Open evaluators and a kernel optimizer."""
    with settings.open_evaluators() as evaluators:
        evaluators.start()
        from .kernel_optimizer import KernelOptimizer  # these imports take as long as some of the processes' own

        yield KernelOptimizer(settings, evaluators, emit)
