"""`optimize`: one kernel, from start to verified end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..core.events import Emit, PartDone
from .devices import choose_device
from .evaluators import Evaluators, joined
from .options.optimize import OptimizeOptions, RunOptions

if TYPE_CHECKING:
    from .optimize_result import OptimizeResult
    from .session import Session


def run_optimize(options: OptimizeOptions, emit: Emit) -> OptimizeResult:
    """Optimize one kernel."""
    with open_session(options, emit) as session:
        result = session.optimize(session.job(options.named))
    emit(PartDone(result))
    return result


@contextlib.contextmanager
def open_session(options: RunOptions, emit: Emit) -> Iterator[Session]:
    """What optimizes kernels, until the command ends."""
    with joined(options) as remote:
        device = choose_device(options, remote)
        with Evaluators(device, options.beam, options, remote) as evaluators:
            evaluators.start()
            from .session import Session  # these imports take as long as some of the processes' own

            yield Session(options, device, evaluators, remote, emit)
