"""The client of the process that replays a plan: that process is the candidate's, and nothing of it is believed."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kernelwright.core import Config, Correctness, Status
from kernelwright.evaluators.candidate import replay_timer
from kernelwright.evaluators.candidate.packing_timer import PackingTimer
from kernelwright.evaluators.candidate.replay_timer import ReplayTimer
from kernelwright.evaluators.candidate.replayer import Drawn, Replayer
from kernelwright.evaluators.candidate.responses import BatchResponse
from kernelwright.evaluators.candidate.verified import CandidateError, HandedPlan, VerifiedConfig
from kernelwright.evaluators.settings import Limits
from kernelwright.evaluators.workers.client import WorkerDiedError, WorkerTimeoutError


class Answers:
    """A worker that answers, or raises an exception."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.alive = True

    def call(self, seconds: float, **request: Any) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def end(self) -> None:
        self.alive = False


def replayer(answer: Any) -> tuple[Replayer, Answers]:
    worker: Any = Answers(answer)
    workers: Any = SimpleNamespace(replay_worker=lambda: worker)
    return Replayer(workers, Limits(call_s=3.0), share=False), worker


@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [
        (WorkerTimeoutError(), Status.TIMEOUT, "its launches did not end within 3 s"),
        (WorkerDiedError(-11), Status.CRASHED, "the process that replayed its launches killed by SIGSEGV"),
        ({"ok": False, "error": "RuntimeError: no\nline 3"}, Status.RUNTIME_ERROR, "replayed: RuntimeError: no"),
        ({"ok": True, "samples_ms": [-1.0]}, Status.CRASHED, "sent no proper answer"),
    ],
)
def test_the_plan_is_at_fault(answer: Any, status: Status, says: str) -> None:
    client, _ = replayer(answer)
    with pytest.raises(CandidateError, match=says) as failed:
        client.go()
    assert failed.value.status is status


def test_memory_beside_the_tensors_is_a_rejection() -> None:
    """Whatever else such an answer lacks."""
    broken = {"rule": "out-of-bounds", "where": "4 bytes behind the end of input 0", "why": "keep within it"}
    for ask in (Replayer.go, Replayer.require_intact):
        client, worker = replayer({"ok": True, "violations": [broken]})
        worker.folder = Path()  # type: ignore[attr-defined]
        with pytest.raises(CandidateError, match="4 bytes behind the end of input 0") as failed:
            ask(client)
        assert failed.value.status is Status.REJECTED and not worker.alive


def test_a_call_that_fails_is_an_answer() -> None:
    client, worker = replayer({"ok": True, "reason": "an operator that resizes"})
    made, _ = client.go()
    assert made.reason == "an operator that resizes" and worker.alive


class Batches:
    """A process whose calls take `own_ms` by its own clock, and `really_ms` by that of the evaluator."""

    def __init__(self, really_ms: float, verdict: Any = None, own_ms: float = 1.0) -> None:
        self.really_ms = really_ms
        self.own_ms = own_ms
        self.verdict = verdict or {"status": Status.OK}
        self.counts: list[int] = []
        self.compared: list[int] = []
        self.pauses = 0
        self.forgets = 1 << 30
        """Batches after which it is seen that calls write to a constant."""
        self.looked_at = 0
        self.others: list[str] = []

    def holding(self, reference_client: Any, plan: HandedPlan) -> contextlib.AbstractContextManager[None]:
        assert plan.integers is None
        return contextlib.nullcontext()

    def pause(self) -> None:
        self.pauses += 1

    def bytes_of(self, number: int) -> int:
        return 1 << 20

    def remembers(self, number: int) -> bool:
        return len(self.counts) > self.forgets

    def prepare_timed(self, *request: Any) -> list[Drawn]:
        _, _, _, seed, first, count, _, other = request
        drawn: list[Drawn] = [(seed, None, first + number) for number in range(count)]
        if other is not None:
            drawn.insert(other["place"] % (count + 1), (other["seed"], other["distribution"], 0))
        self.counts.append(len(drawn))
        return drawn

    def go(self, empty: bool = False) -> tuple[BatchResponse, float]:
        count = 0 if empty else self.counts[-1]
        return BatchResponse(samples_ms=self.told(count), method="wall clock"), 0.1 + count * self.really_ms

    def told(self, count: int) -> list[float]:
        return [self.own_ms] * count

    def require_intact(self) -> None:
        self.looked_at += 1

    def compare_timed(self, reference_client: Any, weights: int, drawn: Sequence[Drawn], places: Any) -> Any:
        self.looked_at += 1  # as reading outputs does
        self.compared += [drawn[place][2] for place in places if drawn[place][1] is None]
        self.others += [drawn[place][1] or "" for place in places if drawn[place][1] is not None]
        return self.verdict

    def rejected(self, rule: str, where: str, why: str) -> CandidateError:
        return replayer({})[0].rejected(rule, where, why)

    def packing_bytes(self, number: int) -> int:
        return 1 << 26

    def prepare_packing(self, number: int, calls: int) -> None:
        self.counts.append(calls)


def packing_timer(batches: Any) -> PackingTimer:
    reference: Any = SimpleNamespace()
    return PackingTimer(batches, reference, True)


def test_packing_is_timed_as_often_as_there_is_room() -> None:
    batches = Batches(really_ms=1.0)
    taken = packing_timer(batches).measured(checked())
    assert taken.samples_ms == (1.0,) * 4 and batches.counts == [4]


def test_packing_that_takes_longer_than_it_says_is_refused() -> None:
    with pytest.raises(CandidateError, match=r"each call took .* ms, but the process that made it reports 1.000 ms"):
        packing_timer(Batches(really_ms=9.0)).measured(checked())


def checked() -> VerifiedConfig:
    correctness = Correctness(seeds=(1,), max_abs_error=0.0, max_rel_error=0.0, tolerance=1e-4, passed=True)
    return VerifiedConfig(Config(), 1, correctness, 0.0, weights=1)


def timer(batches: Any) -> ReplayTimer:
    distributions = ("signs", "mixed rows", "other weights")
    reference: Any = SimpleNamespace(written_weights=frozenset(), distributions=distributions)
    numbers = random.Random(3)
    seeds = itertools.repeat(5)
    return ReplayTimer(batches, reference, checked(), seeds, False, True, lambda: numbers.randrange(1 << 31))


def test_batches_have_random_lengths_and_a_quarter_of_their_results_is_compared() -> None:
    batches = Batches(really_ms=1.0)
    taken = timer(batches)(200)
    assert len(taken["samples_ms"]) == sum(batches.counts) and 150 <= sum(batches.counts) <= 250
    assert batches.pauses == 1, "while the reference is timed"
    assert max(batches.counts) <= replay_timer.MOST_CALLS
    lengths = Batches(really_ms=1.0)
    take = timer(lengths)
    assert len({len(take(40)["samples_ms"]) for _ in range(9)}) > 3
    assert 4 * len(batches.compared) >= sum(batches.counts) - 4 * len(batches.counts)
    assert len(batches.compared) == len(set(batches.compared))
    single = Batches(really_ms=3.0, own_ms=3.0)
    one_by_one = timer(single)
    for _ in range(400):
        one_by_one(1)
    assert 60 < len(single.compared) < 140, "of single calls, too"
    assert single.looked_at == len(single.counts), "walls are looked at after each batch"
    assert max(batches.compared) > 100, "the numbers of calls go on from batch to batch"


def test_one_of_four_chunks_has_a_call_on_inputs_of_another_distribution_which_is_compared() -> None:
    batches = Batches(really_ms=1.0)
    take = timer(batches)
    take(1), take(2)
    assert not batches.others, "the first calls say how many a chunk has"
    for _ in range(62):
        take(3)
    assert len(batches.others) == 16 and {*batches.others} == {"signs", "mixed rows"}


@pytest.mark.parametrize(
    ("verdict", "says"),
    [
        ({"status": Status.WRONG_VALUE, "message": "1 of 4"}, "gave something else than the reference: 1 of 4"),
        (
            {"status": Status.WRONG_VALUE, "message": "1 of 4", "distribution": "signs"},
            r"than the reference: with inputs of another distribution \(signs\): 1 of 4",
        ),
        (
            {"status": Status.OK, "trivial_output": "zeros", "trivial_outputs": ["zeros"]},
            "returns zeros, which is near",
        ),
    ],
)
def test_a_result_that_differs_when_it_is_timed_is_refused(verdict: Any, says: str) -> None:
    with pytest.raises(CandidateError, match=says):
        timer(Batches(1.0, verdict))(50)


def test_a_clock_that_is_slow_is_refused() -> None:
    with pytest.raises(CandidateError, match=r"each call took .* ms, but the process that made it reports 1.000 ms"):
        timer(Batches(really_ms=1.3))(200)


def test_times_that_exceed_the_batch_are_refused() -> None:
    with pytest.raises(CandidateError, match=r"calls that took .* ms together report"):
        timer(Batches(really_ms=0.5))(200)


class Spread(Batches):
    """A process whose times add up, and of which so many are none."""

    def __init__(self, share: float) -> None:
        super().__init__(really_ms=1.0)
        self.share = share

    def told(self, count: int) -> list[float]:
        short = min(count - 1, math.ceil(count * self.share)) if count else 0
        long = count * self.really_ms * 0.999 / max(1, count - short)
        return [1e-6] * short + [long] * (count - short)


@pytest.mark.parametrize("share", [0.5, 0.6, 0.95])
def test_a_median_is_not_that_of_many_short_calls_and_few_long_ones(share: float) -> None:
    """The mean is what the evaluator's clock confirms; a median could be any, and the faster half, too."""
    take = timer(Spread(share))
    times = sorted(samples_m for _ in range(4) for samples_m in take(100)["samples_ms"])
    assert statistics.median(times) > 0.94 and min(times) > 0.94


def test_calls_of_which_some_were_interrupted_are_told_as_they_were() -> None:
    interrupted = Batches(really_ms=1.0)
    interrupted.told = lambda count: [0.98] * (count - 1) + [1.0 + 0.02 * count - 0.02] * bool(count)  # type: ignore[method-assign]
    taken = timer(interrupted)(100)
    assert min(taken["samples_ms"]) == 0.98 and max(taken["samples_ms"]) > 1.5


def test_calls_that_write_to_a_constant_are_timed_one_by_one() -> None:
    """It is put back before each batch; a later call of one would find what an earlier one has computed."""
    known = Batches(really_ms=1.0)
    known.forgets = -1
    assert len(timer(known)(50)["samples_ms"]) == len(known.counts) and set(known.counts) == {1}


def test_calls_that_write_to_a_constant_now_and_then_are_refused() -> None:
    seldom = Batches(really_ms=1.0)
    seldom.forgets = 3
    take = timer(seldom)
    with pytest.raises(CandidateError, match="in some calls only"):
        _ = [take(50) for _ in range(9)]
