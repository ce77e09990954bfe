"""Compiling ahead of measuring: yields configs in order, each with its compile result."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from typing import TypeVar

from .pool import CompileResult

Compiled = TypeVar("Compiled", bound=CompileResult)
Asked = TypeVar("Asked")
"""A config, or a kernel and its config."""


def compiled_ahead(
    configs: Iterable[Asked], submit: Callable[[Asked], Future[Compiled]], window: int, together: bool
) -> Iterator[tuple[Asked, Compiled]]:
    """Keep up to `window` configs in the compilers while the caller works on the first of them.

    Configs are drawn as late as the window allows, so that a tuner chooses with as many results as possible. With
    `together`, a whole window is compiled before its first config is yielded, and none is drawn until its last is: for
    devices where compilers would disturb the measurement.
    """
    source = iter(configs)
    waiting: deque[tuple[Asked, Future[Compiled]]] = deque()
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
