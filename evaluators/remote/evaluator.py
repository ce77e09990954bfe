"""Configs to several workers elsewhere, and their evaluations back: each once, in the order of the configs."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Protocol, Self, TypeVar

from ...core import Config, DeviceError, Evaluation, Kernel, Problem, Profile, Status
from ...core.space import Value
from ..settings import Settings
from .payload import Answer, Payload, What, outlines, read_evaluations, read_profile

ATTEMPTS = 3

_log = logging.getLogger(__name__)

MOST_THREADS = 512
"""Each waits for one worker's answer."""

T = TypeVar("T")


class Lost(Exception):
    """A worker went away with its payload; another may answer it. The message says what happened to it."""


class Overdue(Exception):
    """A payload was stopped because it took too long; the message says how long."""


class GivenUp(Exception):
    """Nobody waits for the answer any more."""


class Workers(Protocol):
    """What runs payloads elsewhere; used from several threads at once."""

    def open(self) -> None:
        """Begin what takes long, in the thread that asks: only that one hears of a Ctrl-C."""
        ...

    def count(self) -> int:
        """How many payloads can be under way at once."""
        ...

    def run(self, payload: Payload, given_up: threading.Event) -> list[Answer]:
        """The answers of one worker, as soon as one is free.

        Raises `Lost`, `Overdue`, and `GivenUp` soon after the event is set.
        """
        ...

    def close(self) -> None:
        """End them all."""
        ...


class RemoteEvaluator:
    """Implements `core.Evaluator` with workers elsewhere.

    In a search a worker is given a window of configs at a time, since it compiles a window ahead; else one. After
    `attempts` lost workers a config is taken to be the cause.
    """

    def __init__(self, workers: Workers, settings: Settings, attempts: int = ATTEMPTS) -> None:
        self.settings = settings
        self._workers = workers
        self._attempts = attempts
        self._devices: set[str] = set()

    def evaluate(
        self, problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
    ) -> Generator[Evaluation]:
        """See `core.Evaluator`; as many configs are drawn ahead as the workers can have under way."""
        self._workers.open()
        source = iter(configs)
        window = self.settings.search.window if self.settings.search else 1
        measured = {Config(one.config): one for one in known}
        given_up = threading.Event()
        under_way: deque[Future[list[Evaluation]]] = deque()
        with ThreadPoolExecutor(MOST_THREADS, "spread") as threads:
            try:
                while True:
                    while len(under_way) < self._workers.count() and (some := tuple(islice(source, window))):
                        found = outlines(measured.values()) if self.settings.search else []
                        payload = Payload.asking(What.EVALUATE, problem, self.settings, kernel, some, found)
                        under_way.append(threads.submit(self._share, payload, given_up))
                    if not under_way:
                        return
                    for evaluation in under_way.popleft().result():
                        whole = _whole(evaluation, measured)
                        self._note_device(whole)
                        measured[Config(whole.config)] = whole
                        yield whole
            finally:
                given_up.set()
                for future in under_way:
                    future.cancel()

    def compare(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        """See `core.Evaluator`: all on one worker, where they meet the same clocks."""
        payload = Payload.asking(What.COMPARE, problem, self.settings, kernel, configs)
        return self._ask(payload, read_evaluations)

    def profile(self, problem: Problem) -> Profile:
        """See `core.Evaluator`: of the device of one worker."""
        return self._ask(Payload.asking(What.PROFILE, problem, self.settings), read_profile)

    def close(self) -> None:
        """End all workers."""
        self._workers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, payload: Payload, read: Callable[[Sequence[Answer]], T]) -> T:
        """One payload whose loss is no verdict on a kernel; `DeviceError` when no worker answers it."""
        self._workers.open()
        given_up = threading.Event()
        with ThreadPoolExecutor(1, "spread") as threads:
            try:
                return read(threads.submit(self._insist, payload, given_up).result())
            except (Lost, Overdue) as lost:
                raise DeviceError(f"{payload.problem.id}: {lost}; run again with `resume`") from None
            finally:
                given_up.set()

    def _note_device(self, evaluation: Evaluation) -> None:
        """Say once that the workers are not alike: what was timed on different devices does not compare."""
        device = evaluation.environment.get("device")
        if device and device not in self._devices:
            self._devices.add(device)
            if len(self._devices) == 2:
                _log.warning("workers have different devices, and their timings do not compare: %s", self._devices)

    def _share(self, payload: Payload, given_up: threading.Event) -> list[Evaluation]:
        """One evaluation per config. A window that was lost is asked for one by one, so that one config is guilty."""
        if len(payload.configs) > 1:
            try:
                return _checked(self._workers.run(payload, given_up), payload.configs)
            except (Lost, Overdue) as lost:
                _log.warning("%s; its %d configs are tried one by one", lost, len(payload.configs))
        return [self._alone(payload.model_copy(update={"configs": (one,)}), given_up) for one in payload.configs]

    def _alone(self, payload: Payload, given_up: threading.Event) -> Evaluation:
        try:
            return _checked(self._insist(payload, given_up), payload.configs)[0]
        except Lost as lost:
            return _failed(payload, Status.CRASHED, str(lost))
        except Overdue as overdue:
            return _failed(payload, Status.TIMEOUT, str(overdue))

    def _insist(self, payload: Payload, given_up: threading.Event) -> list[Answer]:
        """Ask one worker after the other; raises what happened to the last one."""
        for attempt in range(1, self._attempts + 1):
            last = attempt == self._attempts
            try:
                answers = self._workers.run(payload, given_up)
                # Not the kernel's fault and not the user's: a full disk there, or a server that ran out of memory.
                if answers[-1].get("error") != DeviceError.__name__ or last:
                    return answers
            except Lost as lost:
                if last:
                    raise Lost(f"{lost}, the last of {attempt} that had it") from None
                _log.warning("%s; another takes over", lost)
        raise AssertionError("at least one attempt")


def _failed(payload: Payload, status: Status, message: str) -> Evaluation:
    assert payload.kernel is not None
    digest = payload.kernel.kernel().digest
    return Evaluation(status=status, kernel_digest=digest, config=payload.configs[0], message=message)


def _checked(answers: Sequence[Answer], configs: Sequence[Mapping[str, Value]]) -> list[Evaluation]:
    evaluations = read_evaluations(answers)
    if [one.config for one in evaluations] != list(configs):
        raise DeviceError(f"a worker was asked for {len(configs)} configs and answered others")
    return evaluations


def _whole(evaluation: Evaluation, measured: dict[Config, Evaluation]) -> Evaluation:
    """A twin of what was measured elsewhere has that one's outline only; the rest is here."""
    original = evaluation.duplicate_of is not None and measured.get(Config(evaluation.duplicate_of))
    if not original:
        return evaluation
    return original.model_copy(update={"config": evaluation.config, "duplicate_of": evaluation.duplicate_of})


def polled(seconds: float, given_up: threading.Event) -> Iterator[None]:
    """At once, and then once every `seconds`, until nobody waits any more: then `GivenUp`."""
    while not given_up.is_set():
        yield
        given_up.wait(seconds)
    raise GivenUp
