"""`optimize`: one kernel, from start to verified end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .devices import choose_device
from .evaluators import Evaluators, joined
from .observers import RunObserver
from .options.optimize import OptimizeOptions, RunOptions

if TYPE_CHECKING:
    from .optimize_result import OptimizeResult
    from .session import Session


def run_optimize(options: OptimizeOptions, observer: RunObserver) -> OptimizeResult:
    """Optimize one kernel."""
    with open_session(options, observer) as session:
        result = session.optimize(session.job(options.named))
    observer.run_ended(result)
    return result


@contextlib.contextmanager
def open_session(options: RunOptions, observer: RunObserver) -> Iterator[Session]:
    """What optimizes kernels, until the command ends."""
    with joined(options) as remote:
        device = choose_device(options, remote)
        with Evaluators(device, options.beam, options, remote) as evaluators:
            evaluators.start()
            from .session import Session  # these imports take as long as some of the processes' own

            yield Session(options, device, evaluators, remote, observer)
