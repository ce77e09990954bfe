"""Sends configs to several remote workers; each evaluation comes back once, in the order of the configs."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Self, TypeVar

from ...core import Config, DeviceError, Evaluation, Kernel, Problem, Profile, Status
from ...core.space import Value
from ..settings import Settings
from .payload import Payload, Response, What, outlines, read_evaluations, read_profile
from .workers import PayloadTimeoutError, WorkerLostError, Workers

ATTEMPTS = 3

_log = logging.getLogger(__name__)

MOST_THREADS = 512
"""Each waits for the response of one worker."""

T = TypeVar("T")


class RemoteEvaluator:
    """Implements `core.Evaluator` with remote workers.

    In a search a worker gets a window of configs at a time, since it compiles a window ahead; else one. A config that
    loses `attempts` workers is taken to be the cause.
    """

    def __init__(self, workers: Workers, settings: Settings, attempts: int = ATTEMPTS) -> None:
        self.settings = settings
        self._workers = workers
        self._attempts = attempts
        self._devices: set[str] = set()

    def evaluate(
        self, problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
    ) -> Generator[Evaluation]:
        """See `core.Evaluator`; draws as many configs ahead as the workers can run at once."""
        self._workers.open()
        source = iter(configs)
        window = self.settings.search.window if self.settings.search else 1
        measured = {Config(item.config): item for item in known}
        given_up = threading.Event()
        under_way: deque[Future[list[Evaluation]]] = deque()
        with ThreadPoolExecutor(MOST_THREADS, "remote") as threads:
            try:
                while True:
                    while len(under_way) < self._workers.count() and (some := tuple(islice(source, window))):
                        found = outlines(measured.values()) if self.settings.search else []
                        payload = Payload.asking(What.EVALUATE, problem, self.settings, kernel, some, found)
                        under_way.append(threads.submit(self._evaluate_window, payload, given_up))
                    if not under_way:
                        return
                    for evaluation in under_way.popleft().result():
                        whole = _completed(evaluation, measured)
                        self._note_device(whole)
                        measured[Config(whole.config)] = whole
                        yield whole
            finally:
                given_up.set()
                for future in under_way:
                    future.cancel()

    def screen(self, problem: Problem, kernels: Sequence[Kernel]) -> Generator[Evaluation]:
        """See `core.Screener`: each kernel goes to the next free worker."""
        self._workers.open()
        given_up = threading.Event()
        payloads = [Payload.asking(What.EVALUATE, problem, self.settings, kernel, [Config()]) for kernel in kernels]
        with ThreadPoolExecutor(MOST_THREADS, "remote") as threads:
            futures = [threads.submit(self._evaluate_window, payload, given_up) for payload in payloads]
            try:
                for future in futures:
                    (evaluation,) = future.result()
                    self._note_device(evaluation)
                    yield evaluation
            finally:
                given_up.set()
                for future in futures:
                    future.cancel()

    def compare(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        """See `core.Evaluator`: all on one worker, where they run under the same clocks."""
        payload = Payload.asking(What.COMPARE, problem, self.settings, kernel, configs)
        return self._ask(payload, read_evaluations)

    def contest(self, problem: Problem, kernels: Sequence[Kernel]) -> list[Evaluation]:
        """See `core.Judge`: all on one worker, as `compare`."""
        payload = Payload.asking(What.CONTEST, problem, self.settings, kernels=kernels)
        return self._ask(payload, read_evaluations)

    def profile(self, problem: Problem) -> Profile:
        """See `core.Evaluator`: the profile of one worker's device."""
        return self._ask(Payload.asking(What.PROFILE, problem, self.settings), read_profile)

    def close(self) -> None:
        """End all workers."""
        self._workers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, payload: Payload, read: Callable[[Sequence[Response]], T]) -> T:
        """Run a payload whose loss says nothing about a kernel; raises `DeviceError` when no worker returns it."""
        self._workers.open()
        given_up = threading.Event()
        with ThreadPoolExecutor(1, "remote") as threads:
            try:
                return read(threads.submit(self._run_with_retries, payload, given_up).result())
            except (WorkerLostError, PayloadTimeoutError) as lost:
                raise DeviceError(f"{payload.problem.id}: {lost}; run again with `resume`") from None
            finally:
                given_up.set()

    def _note_device(self, evaluation: Evaluation) -> None:
        """Warn once when the workers' devices differ, since their timings do not compare."""
        device = evaluation.environment.get("device")
        if device and device not in self._devices:
            self._devices.add(device)
            if len(self._devices) == 2:
                _log.warning("workers have different devices, and their timings do not compare: %s", self._devices)

    def _evaluate_window(self, payload: Payload, given_up: threading.Event) -> list[Evaluation]:
        """Return one evaluation per config. A lost window is run again one by one, to find the config at fault."""
        if len(payload.configs) > 1:
            try:
                return _checked(self._workers.run(payload, given_up), payload.configs)
            except (WorkerLostError, PayloadTimeoutError) as lost:
                _log.warning("%s; its %d configs are tried one by one", lost, len(payload.configs))
        return [
            self._evaluate_one(payload.model_copy(update={"configs": (config,)}), given_up)
            for config in payload.configs
        ]

    def _evaluate_one(self, payload: Payload, given_up: threading.Event) -> Evaluation:
        try:
            return _checked(self._run_with_retries(payload, given_up), payload.configs)[0]
        except WorkerLostError as lost:
            return _failed(payload, Status.CRASHED, str(lost))
        except PayloadTimeoutError as overdue:
            return _failed(payload, Status.TIMEOUT, str(overdue))

    def _run_with_retries(self, payload: Payload, given_up: threading.Event) -> list[Response]:
        """Try one worker after the other; raises the last one's failure."""
        for attempt in range(1, self._attempts + 1):
            last = attempt == self._attempts
            try:
                responses = self._workers.run(payload, given_up)
                # Neither the kernel's fault nor the user's: a full disk there, or a server that ran out of memory.
                if responses[-1].get("error") != DeviceError.__name__ or last:
                    return responses
            except WorkerLostError as lost:
                if last:
                    raise WorkerLostError(f"{lost}, the last of {attempt} that had it") from None
                _log.warning("%s; another takes over", lost)
        raise AssertionError("at least one attempt")


def _failed(payload: Payload, status: Status, message: str) -> Evaluation:
    assert payload.kernel is not None
    digest = payload.kernel.kernel().digest
    return Evaluation(status=status, kernel_digest=digest, config=payload.configs[0], message=message)


def _checked(responses: Sequence[Response], configs: Sequence[Mapping[str, Value]]) -> list[Evaluation]:
    evaluations = read_evaluations(responses)
    if [evaluation.config for evaluation in evaluations] != list(configs):
        raise DeviceError(f"a worker was given {len(configs)} configs and returned others")
    return evaluations


def _completed(evaluation: Evaluation, measured: dict[Config, Evaluation]) -> Evaluation:
    """Complete a duplicate of a kernel that was measured elsewhere: only its outline came back, the rest is here."""
    original = evaluation.duplicate_of is not None and measured.get(Config(evaluation.duplicate_of))
    if not original:
        return evaluation
    return original.model_copy(update={"config": evaluation.config, "duplicate_of": evaluation.duplicate_of})
