"""Configs spread over workers that are made up: order, losses, retries, what is drawn ahead."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from kernelwright.core import Config, DeviceError, Problem, ProblemError, Status
from kernelwright.evaluators.remote.evaluator import RemoteEvaluator
from kernelwright.evaluators.remote.payload import Payload, Response, failure
from kernelwright.evaluators.remote.workers import PayloadCancelledError, PayloadTimeoutError, WorkerLostError
from kernelwright.evaluators.settings import SearchSettings, Settings

from ...fakes import PROBLEM, PROFILE, evaluation, kernel

KERNEL = kernel(1.0, A=1)
SEARCH = Settings(search=SearchSettings(window=3))


class MadeUp:
    """Workers whose responses a function makes; `slow` configs take longer than the others."""

    def __init__(self, answer: Callable[[Payload], list[Response]], count: int = 2) -> None:
        self.asked: list[Payload] = []
        self._answer = answer
        self._count = count
        self._free = threading.Semaphore(count)
        self.most = 0
        self._under_way = 0
        self._lock = threading.Lock()

    def count(self) -> int:
        return self._count

    def open(self) -> None:
        pass

    def close(self) -> None:
        self._count = 0

    def run(self, payload: Payload, given_up: threading.Event) -> list[Response]:
        with self._free:
            with self._lock:
                self.asked.append(payload)
                self._under_way += 1
                self.most = max(self.most, self._under_way)
            try:
                return self._answer(payload)
            finally:
                with self._lock:
                    self._under_way -= 1


def right(payload: Payload) -> list[Response]:
    return [{"evaluation": evaluation(KERNEL, Config(c), 1.0).model_dump(mode="json")} for c in payload.configs]


def asked(workers: MadeUp) -> Counter[int]:
    return Counter(int(config["A"]) for payload in workers.asked for config in payload.configs)


def configs(count: int) -> list[Config]:
    return [Config({"A": a}) for a in range(count)]


@pytest.mark.parametrize("settings", [Settings(), SEARCH], ids=["full", "search"])
def test_one_evaluation_per_config_in_order(settings: Settings) -> None:
    def jittery(payload: Payload) -> list[Response]:
        time.sleep(0.02 if payload.configs[0]["A"] in (0, 6) else 0.0)
        return right(payload)

    workers = MadeUp(jittery)
    window = settings.search.window if settings.search else 1
    drawn: list[Config] = []

    def source() -> Iterator[Config]:
        for config in configs(14):
            drawn.append(config)
            yield config

    seen = []
    for result in RemoteEvaluator(workers, settings).evaluate(PROBLEM, KERNEL, source()):
        seen.append(Config(result.config))
        assert len(drawn) - len(seen) < 2 * window
    assert seen == configs(14)
    assert workers.most == 2
    assert set(asked(workers).values()) == {1}
    assert [len(payload.configs) for payload in workers.asked if payload.configs[0]["A"] == 0] == [window]


def test_a_lost_config_goes_to_another_worker() -> None:
    lost = Counter({1: 2, 3: 1})

    def shaky(payload: Payload) -> list[Response]:
        number = int(payload.configs[0]["A"])
        lost[number] -= 1
        if lost[number] >= 0:
            raise WorkerLostError("the node went away")
        return right(payload)

    workers = MadeUp(shaky)
    seen = list(RemoteEvaluator(workers, Settings()).evaluate(PROBLEM, KERNEL, configs(5)))
    assert [Config(evaluation.config) for evaluation in seen] == configs(5)
    assert all(evaluation.ok for evaluation in seen)
    assert asked(workers) == {0: 1, 1: 3, 2: 1, 3: 2, 4: 1}


def test_a_config_that_loses_every_worker_has_crashed_and_the_rest_of_its_window_has_not() -> None:
    def deadly(payload: Payload) -> list[Response]:
        if any(config["A"] == 1 for config in payload.configs):
            raise WorkerLostError("the node went away")
        return right(payload)

    workers = MadeUp(deadly)
    seen = list(RemoteEvaluator(workers, SEARCH, attempts=2).evaluate(PROBLEM, KERNEL, configs(4)))
    assert [evaluation.status for evaluation in seen] == [Status.OK, Status.CRASHED, Status.OK, Status.OK]
    assert seen[1].message == "the node went away, the last of 2 that had it"
    assert seen[1].kernel_digest == KERNEL.digest and seen[1].config == {"A": 1}


def test_a_config_that_takes_too_long_has_timed_out_and_is_not_tried_again() -> None:
    def slow(payload: Payload) -> list[Response]:
        if payload.configs[0]["A"] == 1:
            raise PayloadTimeoutError("stopped after 9 s")
        return right(payload)

    workers = MadeUp(slow)
    seen = list(RemoteEvaluator(workers, Settings()).evaluate(PROBLEM, KERNEL, configs(3)))
    assert [evaluation.status for evaluation in seen] == [Status.OK, Status.TIMEOUT, Status.OK]
    assert seen[1].message == "stopped after 9 s"
    assert asked(workers)[1] == 1


def test_a_worker_whose_device_fails_is_a_lost_one_until_all_fail() -> None:
    failing = [True]

    def full_disk(payload: Payload) -> list[Response]:
        if failing:
            failing.pop()
            return [failure(DeviceError("the disk is full"))]
        return right(payload)

    assert [
        evaluation.ok
        for evaluation in RemoteEvaluator(MadeUp(full_disk), Settings()).evaluate(PROBLEM, KERNEL, configs(2))
    ] == [True] * 2
    broken = MadeUp(lambda payload: [failure(DeviceError("the disk is full"))])
    with pytest.raises(DeviceError, match="the disk is full"):
        list(RemoteEvaluator(broken, Settings()).evaluate(PROBLEM, KERNEL, configs(2)))


def test_a_mistake_of_the_user_ends_it() -> None:
    workers = MadeUp(lambda payload: [failure(ProblemError("the reference fails"))])
    with pytest.raises(ProblemError, match="the reference fails"):
        list(RemoteEvaluator(workers, Settings()).evaluate(PROBLEM, KERNEL, configs(50)))
    assert len(workers.asked) <= 2


def test_answers_to_other_configs_are_refused() -> None:
    workers = MadeUp(lambda payload: right(payload.model_copy(update={"configs": ({"A": 77},)})))
    with pytest.raises(DeviceError, match="returned others"):
        list(RemoteEvaluator(workers, Settings()).evaluate(PROBLEM, KERNEL, configs(1)))


def test_leaving_gives_up_what_is_under_way() -> None:
    stopped = []
    begun = threading.Semaphore(0)

    class Patient(MadeUp):
        def run(self, payload: Payload, given_up: threading.Event) -> list[Response]:
            if payload.configs[0]["A"] == 0:
                return right(payload)
            begun.release()
            assert given_up.wait(20)
            stopped.append(payload.configs[0]["A"])
            raise PayloadCancelledError

    evaluations = RemoteEvaluator(Patient(right, 3), Settings()).evaluate(PROBLEM, KERNEL, configs(100))
    next(evaluations)
    assert begun.acquire(timeout=20) and begun.acquire(timeout=20)
    began = time.monotonic()
    evaluations.close()
    assert time.monotonic() - began < 5
    assert sorted(stopped) == [1, 2]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("spread")]


def test_in_a_search_what_is_known_travels_and_duplicates_are_whole() -> None:
    first = evaluation(KERNEL, Config({"A": 50}), 2.0).model_copy(
        update={"code_digest": "abc", "log": "all of it", "environment": {"device": "here"}}
    )

    def answer(payload: Payload) -> list[Response]:
        (known,) = payload.known
        twins = [known.model_copy(update={"config": dict(c), "duplicate_of": known.config}) for c in payload.configs]
        return [{"evaluation": twin.model_dump(mode="json")} for twin in twins]

    (seen,) = RemoteEvaluator(MadeUp(answer), SEARCH).evaluate(PROBLEM, KERNEL, configs(1), known=[first])
    assert seen == first.model_copy(update={"config": {"A": 0}, "duplicate_of": {"A": 50}})
    assert seen.log == "all of it"


def test_finalists_and_profiles_that_no_worker_answers_are_no_verdicts() -> None:
    def gone(payload: Payload) -> list[Response]:
        raise WorkerLostError("the node went away")

    workers = MadeUp(gone)
    spread = RemoteEvaluator(workers, Settings(), attempts=2)
    for ask in (lambda: spread.compare(PROBLEM, KERNEL, configs(2)), lambda: spread.profile(PROBLEM)):
        with pytest.raises(DeviceError, match=r"the node went away, the last of 2 .*`resume`"):
            ask()
    assert len(workers.asked) == 4


def test_finalists_are_compared_by_one_worker() -> None:
    workers = MadeUp(right)
    finals = RemoteEvaluator(workers, Settings()).compare(PROBLEM, KERNEL, configs(3))
    assert [evaluation.config for evaluation in finals] == [{"A": 0}, {"A": 1}, {"A": 2}]
    assert [len(payload.configs) for payload in workers.asked] == [3]
    profiled = MadeUp(lambda payload: [{"profile": PROFILE.model_dump(mode="json")}])
    assert RemoteEvaluator(profiled, Settings()).profile(PROBLEM) == PROFILE


def test_the_problem_that_travels_is_the_one_that_is_asked_for(scale_problem: Problem) -> None:
    workers = MadeUp(right)
    other = replace(scale_problem, sizes={"rows": 2})
    list(RemoteEvaluator(workers, Settings()).evaluate(other, KERNEL, configs(1)))
    assert workers.asked[0].problem.problem() == replace(other, path="")


def test_workers_with_different_devices_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    def somewhere(payload: Payload) -> list[Response]:
        (response,) = right(payload)
        response["evaluation"]["environment"] = {"device": f"GPU {int(payload.configs[0]['A']) // 3}"}
        return [response]

    list(RemoteEvaluator(MadeUp(somewhere), Settings()).evaluate(PROBLEM, KERNEL, configs(3)))
    assert not caplog.records
    list(RemoteEvaluator(MadeUp(somewhere), Settings()).evaluate(PROBLEM, KERNEL, configs(9)))
    assert [record.getMessage()[:30] for record in caplog.records] == ["workers have different devices"]
