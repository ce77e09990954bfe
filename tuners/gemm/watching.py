"""Who watches a sweep, and how an interruption reaches its searches."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

from ...core import Config, Evaluation
from ..search import Progress
from .result import ShapeResult
from .shapes import Shape


class Observer(Protocol):
    """Receives the events of a sweep."""

    def note(self, text: str) -> None:
        """A remark, one line."""

    def shape_started(self, shape: Shape) -> None:
        """A search begins."""

    def shape_trial(self, shape: Shape, progress: Progress) -> None:
        """A config was measured."""

    def shape_ended(self, result: ShapeResult, done: int, total: int, left_s: float) -> None:
        """A shape has its result; `left_s` estimates the seconds for the others."""


class Stopped(Exception):
    """The sweep was interrupted, and the searches in other threads must end."""


class Trials:
    """Passes a search's events on, and ends it when the sweep is interrupted."""

    def __init__(self, observer: Observer, shape: Shape, stop: threading.Event) -> None:
        self._observer, self._shape, self._stop = observer, shape, stop

    def trial(self, evaluation: Evaluation, progress: Progress) -> None:
        """Pass on."""
        if self._stop.is_set():
            raise Stopped
        self._observer.shape_trial(self._shape, progress)

    def finals(self, configs: Sequence[Config]) -> None:
        """Not shown."""
