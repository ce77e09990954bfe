"""What the workers of every evaluator entry must do."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from ..core import Config, Kernel, Problem, ProblemError
from ..evaluators.remote.evaluator import RemoteEvaluator
from ..evaluators.remote.options import CPU, CUDA, RemoteOptions
from ..evaluators.remote.payload import Payload, What, read_evaluations
from ..evaluators.remote.workers import EvaluatorEntry, PayloadCancelledError, Workers
from ..evaluators.settings import Settings
from .evaluator import JudgeSuite, ScreenerSuite
from .kept import kept

SETTINGS = Settings(checks=2, second_workload=False).quick()


@contextmanager
def _started(entry: EvaluatorEntry, options: RemoteOptions) -> Iterator[Workers]:
    workers = entry.start(options, SETTINGS)
    yield workers
    workers.close()


class EvaluatorEntrySuite(ScreenerSuite, JudgeSuite):
    """What an entry of the option `evaluator` must do: its workers, and the evaluator over them.

    Override `entry`, and `options` where a CPU is not what its machines have. Its workers are started once.
    """

    @pytest.fixture
    def entry(self) -> EvaluatorEntry:
        """Return the entry."""
        raise NotImplementedError("override the fixture `entry` in your class")

    @pytest.fixture
    def options(self) -> RemoteOptions:
        """Return what a user chose."""
        return RemoteOptions("suite", device=CPU)

    @pytest.fixture
    def workers(self, entry: EvaluatorEntry, options: RemoteOptions, request: pytest.FixtureRequest) -> Workers:
        """Return its workers."""
        return kept(request, _started(entry, options))

    @pytest.fixture
    def evaluator(self, workers: Workers) -> RemoteEvaluator:
        """Return the evaluator of a command."""
        return RemoteEvaluator(workers, SETTINGS)

    def test_workers_say_what_they_are(self, workers: Workers) -> None:
        assert workers.device in (CPU, CUDA)
        assert workers.label.strip() == workers.label and workers.label
        assert workers.cpus >= 1
        workers.check()
        workers.open()
        workers.open()
        assert workers.count() >= 1

    def test_a_payload_has_one_response_per_config(
        self, workers: Workers, problem: Problem, kernel: Kernel, configs: Sequence[Config]
    ) -> None:
        payload = Payload.asking(What.EVALUATE, problem, SETTINGS, kernel, configs)
        workers.open()
        found = read_evaluations(workers.run(payload, threading.Event()))
        assert [Config(item.config) for item in found] == [*configs]

    def test_a_users_mistake_is_a_response(self, workers: Workers, problem: Problem, kernel: Kernel) -> None:
        payload = Payload.asking(What.EVALUATE, problem, SETTINGS, kernel, [Config()])
        lost = payload.problem.model_copy(update={"source": payload.problem.source.replace("self.weight", "unknown")})
        workers.open()
        responses = workers.run(payload.model_copy(update={"problem": lost}), threading.Event())
        with pytest.raises(ProblemError):
            read_evaluations(responses)

    def test_a_payload_that_nobody_waits_for_is_given_up(
        self, workers: Workers, problem: Problem, kernel: Kernel
    ) -> None:
        payload, given_up = Payload.asking(What.EVALUATE, problem, SETTINGS, kernel, [Config()]), threading.Event()
        given_up.set()
        workers.open()
        with pytest.raises(PayloadCancelledError):
            workers.run(payload, given_up)

    def test_they_are_closed_twice(self, entry: EvaluatorEntry, options: RemoteOptions) -> None:
        started = entry.start(options, SETTINGS)
        started.close()
        started.close()
