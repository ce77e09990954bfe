"""Observers of a command. Every method does nothing here: derive a class and override the relevant ones.

With a beam, methods are called from several threads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..agent.observer import LoopObserver

if TYPE_CHECKING:
    from ..agent.stopping import StoppingCriteria
    from ..core import Budget, Config, Evaluation, SearchSpace
    from ..tuners.discovery import FoundSpace
    from ..tuners.gemm.result import ShapeResult
    from ..tuners.gemm.shapes import Shape
    from ..tuners.mlir.space import Schedule
    from ..tuners.search import Progress
    from .check_result import KernelCheck
    from .jobs import Job
    from .mlir import Scheduling
    from .mlir_files import TrialReport
    from .optimize_result import OptimizeResult
    from .verify_corpus import ExampleResult, KernelResult


class Observer:
    """Remarks, warnings and progress, which every command has."""

    def note(self, text: str) -> None:
        """A remark, one line."""

    def warn(self, text: str) -> None:
        """A warning for the user, one line."""

    @contextlib.contextmanager
    def working(self, text: str) -> Iterator[None]:
        """Around a step without parts that takes seconds or minutes."""
        yield

    @contextlib.contextmanager
    def progress(self, text: str, total: int) -> Iterator[Callable[[str], None]]:
        """Around `total` steps; what it yields is called after each one with its name."""
        yield lambda name: None


class RunObserver(Observer, LoopObserver):
    """Watches `optimize` and `batch`: the events of their loops too."""

    def kernel_started(self, number: int, total: int, reference: str) -> None:
        """A kernel of a batch begins, counted from 1."""

    def run_started(self, job: Job, criteria: StoppingCriteria, model: bool) -> None:
        """A run begins; `model` is True when a language model proposes."""

    def replying(self, lane: str, characters: int) -> None:
        """A model has written this many characters of its reply so far."""

    def run_ended(self, result: OptimizeResult) -> None:
        """A run is over and its files are written."""


class SearchObserver(Observer):
    """Watches `tune`; see `tuners.search.Observer`."""

    def search_started(
        self, name: str, found: FoundSpace, space: SearchSpace, rules: Sequence[str], budget: Budget
    ) -> None:
        """A search begins over `space`, which is what `rules` of the device leave of what was `found`."""

    def trial(self, evaluation: Evaluation, progress: Progress) -> None:
        """A config was evaluated."""

    def finals(self, configs: Sequence[Config]) -> None:
        """The finalists are measured, interleaved."""

    def close(self) -> None:
        """The search ended, however."""


class MlirObserver(SearchObserver):
    """Watches `tune_mlir`: per operation what `SearchObserver` is told."""

    def transforming(self) -> None:
        """The module is read, and a space is made for each operation."""

    def transformed(self, found: Scheduling, seconds: float) -> None:
        """The spaces are there."""

    def operation_started(self, schedule: Schedule, number: int, total: int) -> None:
        """The search for an operation begins, counted from 1."""

    def dry(self, name: str) -> None:
        """A config that would be tried, by its name."""

    def measured(self, report: TrialReport) -> None:
        """A config was evaluated, or taken from an earlier run."""

    def combining(self, configs: Sequence[Config]) -> None:
        """The finalists of several operations are measured together, interleaved."""


class GemmObserver(Observer):
    """Watches `tune_gemm`; see `tuners.gemm.sweep.Observer`. With several devices, from several threads."""

    def shape_started(self, shape: Shape) -> None:
        """The search for a shape begins."""

    def shape_trial(self, shape: Shape, progress: Progress) -> None:
        """A config was measured."""

    def shape_ended(self, result: ShapeResult, done: int, total: int, left_s: float) -> None:
        """A shape has its result; `left_s` estimates the seconds for the others."""


class ReplayObserver(Observer):
    """Watches `replay`."""

    def replay_started(self, tuners: Sequence[str], seeds: int) -> None:
        """Each of the tuners searches `seeds` times."""

    def replayed(self, tuner: str) -> None:
        """A tuner has come to the end of one search."""

    def close(self) -> None:
        """The replay ended, however."""


class VerifyObserver(Observer):
    """Watches `verify_corpus`."""

    def example_verified(self, number: int, total: int, result: ExampleResult) -> None:
        """An example was checked, counted from 1."""

    def kernel_verified(self, number: int, total: int, result: KernelResult) -> None:
        """A shipped kernel was checked, counted from 1."""


class CheckObserver(Observer):
    """Watches `check`."""

    def kernel_checked(self, number: int, total: int, result: KernelCheck) -> None:
        """A kernel was checked, counted from 1."""
