"""Compiling ahead of measuring: configs come in order, each with what compiling it came to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait

from ...core import Config
from .pool import CompileResult

Submit = Callable[[Config], Future[CompileResult]]


def compiled_ahead(
    configs: Iterable[Config], submit: Submit, window: int, together: bool
) -> Iterator[tuple[Config, CompileResult]]:
    """Keep up to `window` configs in the compilers while the caller works with the first of them.

    Configs are drawn as late as the window allows, so that whoever chooses them knows as much as possible.
    `together` waits for a whole window before the first is handed out and draws none until the last is: where
    compilers would disturb what is measured.
    """
    source = iter(configs)
    waiting: deque[tuple[Config, Future[CompileResult]]] = deque()
    while True:
        if not (together and waiting):
            while len(waiting) < window and (config := next(source, None)) is not None:
                waiting.append((config, submit(config)))
            if together:
                wait([future for _, future in waiting])
        if not waiting:
            return
        config, future = waiting.popleft()
        yield config, future.result()
