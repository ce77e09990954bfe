"""Continues with new processes if the servers of all workers have ended, which is not a kernel's failure."""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator

from ...core import Config, Evaluation, Kernel, Status
from ..settings import Precision
from ..workers.client import ServerEndedError
from ..workers.shortages import ATTEMPTS, TRIED

_LOG = logging.getLogger(__name__)
Pair = tuple[Kernel, Config]


def with_new_servers(
    measured: Callable[[Iterator[Pair]], Generator[Evaluation]],
    pairs: Iterable[Pair],
    again: Callable[[], object],
    precision: Precision,
) -> Generator[Evaluation]:
    """Yield one evaluation per kernel and config, in order; `again` forgets what the ended servers had.

    A pair at which they end `ATTEMPTS` times is not measured. What was drawn ahead and has no evaluation yet is given
    to `measured` once more. Raises `ServerEndedError` where servers end as often before the first pair.
    """
    source, waiting, attempts = iter(pairs), deque[Pair](), 0

    def left() -> Iterator[Pair]:
        yield from tuple(waiting)
        for pair in source:
            waiting.append(pair)
            yield pair

    while True:
        try:
            with contextlib.closing(measured(left())) as found:
                for evaluation in found:
                    waiting.popleft()
                    attempts = 0
                    yield evaluation
            return
        except ServerEndedError as ended:
            again()
            attempts += 1
            if attempts < ATTEMPTS:
                _LOG.warning("%s; it is tried again", ended.message)
                continue
            if not waiting:
                raise
            attempts = 0
            yield _not_measured(*waiting.popleft(), ended, precision)


def _not_measured(kernel: Kernel, config: Config, ended: ServerEndedError, precision: Precision) -> Evaluation:
    return Evaluation(
        status=Status.NOT_MEASURED,
        kernel_digest=kernel.digest,
        config=dict(config),
        message=f"{ended.message}; {TRIED}",
        precision=precision.value,
    )
