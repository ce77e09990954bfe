"""Observers of a schedule search."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ..core import Config, Evaluation
from ..tuners.schedule.folder import TuningFolder
from ..tuners.search import Progress
from .observers import SearchObserver

_log = logging.getLogger(__name__)


class FolderObserver:
    """Keeps the folder in step, then passes on; of a simulation no finalists, since nothing is measured again."""

    def __init__(self, observer: SearchObserver, folder: TuningFolder, simulated: bool) -> None:
        self._observer = observer
        self._folder = folder
        self._simulated = simulated

    def trial(self, evaluation: Evaluation, progress: Progress) -> None:
        """Note a trial."""
        if self._folder.add(evaluation):
            self._folder.write()
        self._observer.trial(evaluation, progress)

    def finals(self, configs: Sequence[Config]) -> None:
        """Pass on what is measured."""
        if not self._simulated:
            self._observer.finals(configs)


class LoggingObserver(SearchObserver):
    """For `verbose`: every trial is logged, at level INFO."""

    def trial(self, evaluation: Evaluation, progress: Progress) -> None:
        """One line."""
        latency = f"{evaluation.latency_ms:.4f} ms" if evaluation.latency_ms else evaluation.message
        _log.info("trial %d, %s: %s", progress.trials, evaluation.status, latency)
