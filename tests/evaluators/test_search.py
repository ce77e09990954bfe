"""Many configs at a time: compiled ahead, equal code once, hopeless ones not for long, finalists in turn."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from kernelwright.core import Config, Evaluation, Kernel, Problem, ProblemError, Status
from kernelwright.evaluators.device_lock import DeviceLock
from kernelwright.evaluators.fleet import AHEAD, Fleet
from kernelwright.evaluators.limits import Sampling, SearchSettings
from kernelwright.evaluators.local import LocalEvaluator

from ..conftest import FAST, SCALE_KERNEL, SCALE_PROBLEM, torch_kernel

WINDOW = 4
QUICK = Sampling(seconds=0.03, min_samples=5, max_samples=20, chunk_s=0.002, patience_s=0.0)
SEARCHING = replace(FAST, search=SearchSettings(compilers=2, window=WINDOW, sampling=QUICK))
IN_FLEET_WINDOW = 2
IN_FLEET = replace(FAST, trials=1, search=SearchSettings(compilers=1, window=IN_FLEET_WINDOW, sampling=QUICK))

# Each value of CASE fares in its own way; 5 crashes on real tensors only, so the compilers see nothing of it.
CASES = torch_kernel(
    "import os; os._exit(3) if CASE == 4 or (CASE == 5 and type(x) is torch.Tensor) else None\n"
    "        y = x * self.weight + {3: 1.0, 5: -0.0}.get(CASE, 0.0)\n"
    "        return y[:, 1:] if CASE == 6 else y",
    top="CASE = 1\nif CASE == 2:\n    import nothing_of_that_name",
)
REPEATED = torch_kernel("for _ in range(REPEAT): y = x * self.weight\n        return y", top="REPEAT = 1\nDUMMY = 0")


@pytest.fixture(scope="module")
def searching() -> Iterator[LocalEvaluator]:
    with LocalEvaluator(settings=SEARCHING, rng=random.Random(1)) as shared:
        yield shared


def cases(*values: int) -> list[Config]:
    return [Config({"CASE": value}) for value in values]


def test_each_failure_is_one_trial(searching: LocalEvaluator, scale_problem: Problem) -> None:
    configs = cases(1, 2, 3, 4, 5, 6, 0)
    found = list(searching.evaluate(scale_problem, CASES, configs))
    assert [Config(e.config) for e in found] == configs
    ok, compile_error, crashed = Status.OK, Status.COMPILE_ERROR, Status.CRASHED
    assert [e.status for e in found] == [
        ok,
        compile_error,
        Status.WRONG_VALUE,
        crashed,
        crashed,
        Status.WRONG_SHAPE,
        ok,
    ]
    assert "nothing_of_that_name" in found[1].message
    assert "(compiling)" in found[3].message
    assert "(compiling or running)" in found[4].message
    for evaluation in found:
        assert evaluation.kernel_digest == CASES.digest
        assert (evaluation.latency_ms is not None) == evaluation.ok
        assert evaluation.reference is None  # a search compares configs with each other
        assert evaluation.environment["device"]


def test_a_real_kernel_is_compiled_ahead_and_measured(
    searching: LocalEvaluator, scale_problem: Problem, scale_kernel: Kernel
) -> None:
    configs = [Config({"BLOCK": size}) for size in (4, 8, 16)]
    found = list(searching.evaluate(scale_problem, scale_kernel, configs))
    assert [e.status for e in found] == [Status.OK] * 3
    assert all(e.compile_s is not None and e.compile_s > 0.05 for e in found)
    assert all(e.correctness is not None and e.correctness.trials == 1 for e in found)
    assert len({e.correctness.seeds for e in found if e.correctness}) == 3
    assert all(e.duplicate_of is None for e in found)


def test_equal_code_is_measured_once(searching: LocalEvaluator, scale_problem: Problem) -> None:
    pairs = [(1, 0), (1, 1), (2, 0), (2, 7), (1, 2)]
    configs = [Config({"REPEAT": repeat, "DUMMY": dummy}) for repeat, dummy in pairs]
    found = list(searching.evaluate(scale_problem, REPEATED, configs))
    assert [Config(e.config) for e in found] == configs
    first, second = dict(configs[0]), dict(configs[2])
    assert [e.duplicate_of for e in found] == [None, first, None, second, first]
    assert found[1].measurement == found[4].measurement == found[0].measurement
    assert found[3].measurement == found[2].measurement != found[0].measurement


def test_equal_code_that_fails_fails_once(searching: LocalEvaluator, scale_problem: Problem) -> None:
    kernel = torch_kernel("return x * self.weight + 1", top="DUMMY = 0")
    found = list(searching.evaluate(scale_problem, kernel, [Config({"DUMMY": i}) for i in range(3)]))
    assert [e.status for e in found] == [Status.WRONG_VALUE] * 3
    assert [e.duplicate_of for e in found] == [None, {"DUMMY": 0}, {"DUMMY": 0}]
    assert len({e.correctness.seeds for e in found if e.correctness}) == 1


def test_a_hopeless_config_is_cut_off(searching: LocalEvaluator, scale_problem: Problem) -> None:
    configs = [Config({"REPEAT": repeat}) for repeat in (2, 3000, 1)]
    good, hopeless, other = searching.evaluate(scale_problem, REPEATED, configs)
    assert hopeless.status is Status.OK
    assert "slower than 2 times the best" in hopeless.message
    assert hopeless.measurement is not None and len(hopeless.measurement.samples_ms) == 3
    assert hopeless.latency_ms is not None and good.latency_ms is not None
    assert hopeless.latency_ms > 2 * good.latency_ms
    for evaluation in (good, other):
        assert evaluation.message == ""
        assert evaluation.measurement is not None and len(evaluation.measurement.samples_ms) >= 5


def test_configs_are_drawn_as_late_as_the_window_allows(searching: LocalEvaluator, scale_problem: Problem) -> None:
    drawn: list[Config] = []

    def source() -> Iterator[Config]:
        for repeat in range(1, 11):
            drawn.append(Config({"REPEAT": repeat}))
            yield drawn[-1]

    seen = [len(drawn) for _ in searching.evaluate(scale_problem, REPEATED, source())]
    # On a CPU compilers would disturb: a window is compiled, then measured, and only then the next is drawn.
    assert seen == [4, 4, 4, 4, 8, 8, 8, 8, 10, 10]


def test_a_search_that_is_left_ends_its_workers(searching: LocalEvaluator, scale_problem: Problem) -> None:
    server, judge = searching.processes.server.pid, searching.processes.judge(scale_problem).pid
    before = threading.active_count()
    evaluations = searching.evaluate(scale_problem, REPEATED, (Config({"REPEAT": i}) for i in range(1, 100)))
    next(iter(evaluations))
    assert len(children(server)) > 1
    evaluations.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
    assert children(server) == {judge}


def children(pid: int) -> set[int]:
    """Children that have not ended."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == pid and state != "Z":
            found.add(int(stat.parent.name))
    return found


def test_finalists_are_checked_anew_and_timed_in_turn(searching: LocalEvaluator, scale_problem: Problem) -> None:
    configs = [Config({"REPEAT": 1}), Config({"REPEAT": 4}), Config()]
    searched = list(searching.evaluate(scale_problem, REPEATED, configs[:2]))
    found = searching.compare(scale_problem, REPEATED, configs)
    assert [Config(e.config) for e in found] == configs
    assert all(e.ok and e.speedup is not None for e in found)
    seeds = {e.correctness.seeds for e in found if e.correctness}
    assert len(seeds) == 1
    assert len(next(iter(seeds))) == FAST.trials
    assert seeds.isdisjoint(e.correctness.seeds for e in searched if e.correctness)
    # All meet the same samples of the reference.
    assert found[0].reference == found[1].reference == found[2].reference is not None
    assert len({e.measurement.samples_ms for e in found if e.measurement}) == 3
    again = searching.compare(scale_problem, REPEATED, configs[:1])
    assert again[0].correctness is not None
    assert again[0].correctness.seeds not in seeds


def test_a_finalist_that_fails_is_left_out(searching: LocalEvaluator, scale_problem: Problem) -> None:
    configs = cases(1, 3, 0, 5, 2)
    found = searching.compare(scale_problem, CASES, configs)
    assert [Config(e.config) for e in found] == configs
    assert [e.status for e in found] == [
        Status.OK, Status.WRONG_VALUE, Status.OK, Status.CRASHED, Status.COMPILE_ERROR
    ]  # fmt: skip
    assert found[0].reference == found[2].reference is not None


def test_one_that_fails_while_it_is_timed_is_left_out(searching: LocalEvaluator, scale_problem: Problem) -> None:
    kernel = torch_kernel(
        "import os; self.calls = getattr(self, 'calls', 0) + 1\n"
        "        os._exit(5) if BAD and self.calls > 4 else None\n"
        "        return x * self.weight",
        top="BAD = 0",
    )
    good, bad = searching.compare(scale_problem, kernel, [Config({"BAD": 0}), Config({"BAD": 1})])
    assert good.ok and good.speedup is not None
    assert (bad.status, bad.measurement) == (Status.CRASHED, None)
    assert "being timed" in bad.message


def test_when_all_finalists_fail(searching: LocalEvaluator, scale_problem: Problem) -> None:
    found = searching.compare(scale_problem, CASES, cases(2, 3))
    assert [e.status for e in found] == [Status.COMPILE_ERROR, Status.WRONG_VALUE]


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with Fleet([LocalEvaluator(settings=IN_FLEET) for _ in range(2)]) as shared:
        yield shared
        pids = [one.processes.server.pid for one in shared._evaluators]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_fleet_keeps_the_order_and_shares_the_work(fleet: Fleet, scale_problem: Problem) -> None:
    configs = [Config({"REPEAT": repeat}) for repeat in range(1, 10)]
    drawn: list[Config] = []
    threads = set(threading.enumerate())

    def source() -> Iterator[Config]:
        for config in configs:
            drawn.append(config)
            yield config

    seen: list[Evaluation] = []
    for evaluation in fleet.evaluate(scale_problem, REPEATED, source()):
        seen.append(evaluation)
        assert len(drawn) - len(seen) < 2 * AHEAD * IN_FLEET_WINDOW
    assert [Config(e.config) for e in seen] == configs
    assert all(e.ok for e in seen)
    assert set(threading.enumerate()) == threads
    # The servers live on, though the threads that they served have ended.
    assert [one.processes._server is not None and one.processes._server.alive for one in fleet._evaluators] == [
        True
    ] * 2
    judges = [one.processes.judge(scale_problem).pid for one in fleet._evaluators]
    assert len(set(judges)) == 2
    final = fleet.compare(scale_problem, REPEATED, [configs[0], Config()])
    assert [e.ok for e in final] == [True, True]


def test_a_fleet_that_is_left_gives_up_what_was_not_begun(
    fleet: Fleet, scale_problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[Config] = []

    def slow(
        problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation]
    ) -> Iterator[Evaluation]:
        for config in configs:
            time.sleep(0.2)
            measured.append(config)
            failed = {"status": Status.TIMEOUT, "message": "slow", "config": dict(config)}
            yield Evaluation(kernel_digest=kernel.digest, **failed)

    for one in fleet._evaluators:
        monkeypatch.setattr(one, "evaluate", slow)
    threads = set(threading.enumerate())
    evaluations = fleet.evaluate(scale_problem, REPEATED, (Config({"REPEAT": i}) for i in range(1, 100)))
    next(evaluations)
    evaluations.close()  # type: ignore[attr-defined]
    assert set(threading.enumerate()) == threads
    assert len(measured) <= 4 < 2 * AHEAD * IN_FLEET_WINDOW


def test_a_problem_that_no_device_can_evaluate(fleet: Fleet, scale_problem: Problem) -> None:
    broken = replace(scale_problem, source=SCALE_PROBLEM.replace("return x * self.weight", "raise ValueError('no')"))
    with pytest.raises(ProblemError, match="ValueError: no"):
        list(fleet.evaluate(broken, REPEATED, [Config({"REPEAT": 1})]))


def test_an_exception_of_one_device_reaches_the_caller(
    fleet: Fleet, scale_problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = [Config({"REPEAT": repeat}) for repeat in range(1, 8)]
    lost = fleet._evaluators[1]
    real = lost.evaluate

    def broken(
        problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation]
    ) -> Iterator[Evaluation]:
        yield from itertools.islice(real(problem, kernel, configs), 2)
        raise ProblemError("the device is gone")

    monkeypatch.setattr(lost, "evaluate", broken)
    threads = set(threading.enumerate())
    seen: list[Config] = []
    with pytest.raises(ProblemError, match="the device is gone"):
        seen += (Config(e.config) for e in fleet.evaluate(scale_problem, REPEATED, configs))
    assert seen == configs[: len(seen)]
    assert set(threading.enumerate()) == threads


HOLDER = """
import sys, time
from pathlib import Path
from kernelwright.evaluators.device_lock import DeviceLock
with DeviceLock("GPU-1/2", Path(sys.argv[1])).held():
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER, str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def says_held(process: subprocess.Popen[str]) -> threading.Event:
    held = threading.Event()
    assert process.stdout is not None
    threading.Thread(target=lambda out=process.stdout: out.readline() == "held\n" and held.set(), daemon=True).start()
    return held


@pytest.mark.parametrize("killed", [False, True])
def test_two_processes_exclude_each_other(tmp_path: Path, killed: bool) -> None:
    with holder(tmp_path) as first, holder(tmp_path) as second:
        events = [(first, says_held(first)), (second, says_held(second))]
        deadline = time.monotonic() + 30
        while not any(event.is_set() for _, event in events) and time.monotonic() < deadline:
            time.sleep(0.01)
        (one, _), (other, waits) = sorted(events, key=lambda pair: not pair[1].is_set())
        assert not waits.wait(0.5)
        assert one.stdin is not None and other.stdin is not None
        one.kill() if killed else one.stdin.close()
        assert waits.wait(10)
        other.stdin.close()
        assert other.wait(10) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["GPU-1-2.lock"]


def test_the_lock_is_let_go_of_after_an_error(tmp_path: Path) -> None:
    lock = DeviceLock("cpu", tmp_path / "locks")
    with pytest.raises(ValueError, match="measured badly"), lock.held():
        raise ValueError("measured badly")
    with lock.held():
        assert lock.path.stat().st_mode & 0o777 == 0o666
        assert lock.path.parent.stat().st_mode & 0o7777 == 0o1777


def test_other_devices_do_not_wait(tmp_path: Path) -> None:
    with DeviceLock("GPU-1", tmp_path).held(), DeviceLock("GPU-2", tmp_path).held():
        assert len(list(tmp_path.iterdir())) == 2


def test_what_an_earlier_run_measured_is_known(searching: LocalEvaluator, scale_problem: Problem) -> None:
    """Equal code is not measured again, nor is a hopeless config timed in full, after a resume."""
    kernel = Kernel.parse(SCALE_KERNEL.replace("BLOCK = 8", "BLOCK = 8\nDUMMY = 0"), "scale")
    (first,) = searching.evaluate(scale_problem, kernel, [Config({"BLOCK": 8, "DUMMY": 0})])
    assert first.ok and first.code_digest
    (twin,) = searching.evaluate(scale_problem, kernel, [Config({"BLOCK": 8, "DUMMY": 1})], [first])
    assert twin.duplicate_of == first.config and twin.measurement == first.measurement
