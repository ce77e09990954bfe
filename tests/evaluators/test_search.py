"""Many configs at a time: compiled ahead, equal code once, slow ones pruned, finalists interleaved."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kernelwright.core import Config, Evaluation, Kernel, Problem, ProblemError, PythonKernel, Status, TorchProblem
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import Sampling, SearchSettings
from kernelwright.evaluators.timing.sampling import PRUNE_AFTER
from kernelwright.evaluators.workers.device_lock import DeviceLock

from ..conftest import FAST, SCALE_KERNEL, Unguarded, torch_kernel

WINDOW = 4
QUICK = Sampling(seconds=0.03, min_samples=5, max_samples=20, chunk_s=0.002, heeds_load=False)
SEARCHING = replace(FAST, search=SearchSettings(compilers=2, window=WINDOW, sampling=QUICK))

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
    with Unguarded(settings=SEARCHING, rng=random.Random(1)) as shared:
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


def test_what_computes_in_less_is_refused_before_the_finals(searching: LocalEvaluator, scale_problem: Problem) -> None:
    """Within the tolerance, and thirty times less exact than fp32."""
    kernel = torch_kernel("return x * self.weight * (1 + LOST)", top="LOST = 0.0")
    exact, rounded = searching.evaluate(scale_problem, kernel, [Config({"LOST": value}) for value in (0.0, 3e-5)])
    assert (exact.status, rounded.status) == (Status.OK, Status.WRONG_VALUE)
    assert rounded.message.startswith("less exact than float32")


def test_a_reference_whose_process_was_ended_fails_with_a_reason(
    searching: LocalEvaluator, scale_problem: Problem
) -> None:
    reference = searching.processes.new_reference_client(TorchProblem.of(scale_problem))
    reference.wait_ready()
    reference.close()
    with pytest.raises(ProblemError, match="had ended before"):
        reference.call("properties")


def test_a_real_kernel_is_compiled_ahead_and_measured(
    searching: LocalEvaluator, scale_problem: Problem, scale_kernel: Kernel
) -> None:
    configs = [Config({"BLOCK": size}) for size in (4, 8, 16)]
    found = list(searching.evaluate(scale_problem, scale_kernel, configs))
    assert [e.status for e in found] == [Status.OK] * 3
    assert all(e.compile_s is not None and e.compile_s > 0 for e in found)
    assert all(e.correctness is not None and e.correctness.checks == 1 for e in found)
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


def test_a_slow_config_is_pruned(searching: LocalEvaluator, scale_problem: Problem) -> None:
    configs = [Config({"REPEAT": repeat}) for repeat in (2, 3000, 1)]
    good, pruned, other = searching.evaluate(scale_problem, REPEATED, configs)
    assert pruned.status is Status.OK
    assert "slower than 2 times the best" in pruned.message
    assert pruned.measurement is not None and len(pruned.measurement.samples_ms) == PRUNE_AFTER
    assert pruned.latency_ms is not None and good.latency_ms is not None
    assert pruned.latency_ms > 2 * good.latency_ms
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
    reference_client, servers = searching.processes.reference_client(scale_problem).pid, searching.processes.server_pids
    before = set(threading.enumerate())
    evaluations = searching.evaluate(scale_problem, REPEATED, (Config({"REPEAT": i}) for i in range(1, 100)))
    next(iter(evaluations))
    workers = children(*servers) - {reference_client}
    assert len(workers) > 1
    # Compilers give way to what is being measured.
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    measuring, *compiling = sorted(os.getpriority(os.PRIO_PROCESS, pid) - mine for pid in workers)
    assert measuring == 0 and len(compiling) == 2 and min(compiling) > 0
    evaluations.close()  # type: ignore[attr-defined]
    searching.processes.tidy()  # the measuring one ends in the background
    # A thread of an earlier test may have ended meanwhile.
    assert set(threading.enumerate()) <= before
    assert children(*servers) == {reference_client}


def children(*parents: int) -> set[int]:
    """Children that have not ended."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) in parents and state != "Z":
            found.add(int(stat.parent.name))
    return found


def test_finalists_are_checked_again_and_timed_interleaved(searching: LocalEvaluator, scale_problem: Problem) -> None:
    configs = [Config({"REPEAT": 1}), Config({"REPEAT": 4}), Config()]
    searched = list(searching.evaluate(scale_problem, REPEATED, configs[:2]))
    found = searching.compare(scale_problem, REPEATED, configs)
    assert [Config(e.config) for e in found] == configs
    assert all(e.ok and e.speedup is not None for e in found)
    seeds = {e.correctness.seeds for e in found if e.correctness}
    assert len(seeds) == 1
    assert len(next(iter(seeds))) == FAST.checks
    assert seeds.isdisjoint(e.correctness.seeds for e in searched if e.correctness)
    # All meet the same samples of the reference.
    assert found[0].reference == found[1].reference == found[2].reference is not None
    assert len({e.measurement.samples_ms for e in found if e.measurement}) == 3
    assert found[0].stages == found[1].stages == found[2].stages and found[0].stages["timing"] > 0
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
        "import os; self.calls = getattr(self, 'calls', 0) + 1; float(x[0, 0])\n"  # no plan: it reads a value
        "        os._exit(5) if BAD and self.calls > 24 else None\n"
        "        return x * self.weight",
        top="BAD = 0",
    )
    good, bad = searching.compare(scale_problem, kernel, [Config({"BAD": 0}), Config({"BAD": 1})])
    assert good.ok and good.speedup is not None
    assert (bad.status, bad.measurement) == (Status.CRASHED, None)
    assert "being timed" in bad.message


def test_the_kernel_as_it_stands_may_fail_while_it_is_timed(searching: LocalEvaluator, scale_problem: Problem) -> None:
    """An empty config is one like any other: the finalists are not blamed for it."""
    kernel = torch_kernel(
        "import os; self.calls = getattr(self, 'calls', 0) + 1; float(x[0, 0])\n"  # no plan: it reads a value
        "        os._exit(5) if BAD and self.calls > 24 else None\n"
        "        return x * self.weight",
        top="BAD = 1",
    )
    start, good = searching.compare(scale_problem, kernel, [Config(), Config({"BAD": 0})])
    assert (start.status, good.status) == (Status.CRASHED, Status.OK)


def test_when_all_finalists_fail(searching: LocalEvaluator, scale_problem: Problem) -> None:
    found = searching.compare(scale_problem, CASES, cases(2, 3))
    assert [e.status for e in found] == [Status.COMPILE_ERROR, Status.WRONG_VALUE]


def test_finalists_that_leave_the_reference_no_room_are_looked_at_one_by_one(
    searching: LocalEvaluator, scale_problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crowded(*_: object) -> list[Evaluation]:
        raise ProblemError("the reference fails: out of memory")

    monkeypatch.setattr(searching._runner.pipeline, "several", crowded)
    configs = [Config({"REPEAT": 1}), Config({"REPEAT": 4})]
    found = searching.compare(scale_problem, REPEATED, configs)
    assert [evaluation.config for evaluation in found] == configs and all(
        evaluation.ok and evaluation.speedup for evaluation in found
    )


def test_what_an_earlier_run_measured_is_known(searching: LocalEvaluator, scale_problem: Problem) -> None:
    """Equal code is not measured again, nor is a slow config timed in full, after a resume."""
    kernel = PythonKernel.parse(SCALE_KERNEL.replace("BLOCK = 8", "BLOCK = 8\nDUMMY = 0"), "scale")
    (first,) = searching.evaluate(scale_problem, kernel, [Config({"BLOCK": 8, "DUMMY": 0})])
    assert first.ok and first.code_digest
    (twin,) = searching.evaluate(scale_problem, kernel, [Config({"BLOCK": 8, "DUMMY": 1})], [first])
    assert twin.duplicate_of == first.config and twin.measurement == first.measurement


def test_what_an_earlier_run_has_beaten_is_pruned(searching: LocalEvaluator, scale_problem: Problem) -> None:
    (best,) = searching.evaluate(scale_problem, REPEATED, [Config({"REPEAT": 1})])
    (slow,) = searching.evaluate(scale_problem, REPEATED, [Config({"REPEAT": 3000})], known=[best])
    assert "slower than 2 times the best" in slow.message


def test_what_compiles_while_it_runs_has_a_compile_time(searching: LocalEvaluator, scale_problem: Problem) -> None:
    """Not ahead, since a number read from a tensor decides; then the first call holds it."""
    kernel = torch_kernel(
        "import time; x[0, 0].item(); first = not hasattr(self, 'warm'); self.warm = True\n"
        "        time.sleep(0.3) if first else None\n"
        "        return x * self.weight",
        top="DUMMY = 0",
    )
    (found,) = searching.evaluate(scale_problem, kernel, [Config({"DUMMY": 1})])
    assert found.ok and found.code_digest is None
    assert found.compile_s is not None and found.compile_s >= 0.3


def test_a_measurement_waits_for_the_device(
    searching: LocalEvaluator, scale_problem: Problem, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_LOCKS", str(tmp_path))
    list(searching.evaluate(scale_problem, REPEATED, [Config({"REPEAT": 1})]))
    (path,) = tmp_path.glob("*.lock")
    measured = threading.Event()

    def measure() -> None:
        list(searching.evaluate(scale_problem, REPEATED, [Config({"REPEAT": 2})]))
        measured.set()

    thread = threading.Thread(target=measure)
    with DeviceLock(path.stem).held():
        thread.start()
        assert not measured.wait(4)
    thread.join(60)
    assert measured.is_set()


def test_several_trials_leave_the_weights_that_are_timed(scale_problem: Problem) -> None:
    quick = SearchSettings(checks=2, sampling=QUICK)
    with Unguarded(settings=replace(FAST, search=quick)) as twice:
        (found,) = twice.evaluate(scale_problem, REPEATED, [Config({"REPEAT": 1})])
    assert found.ok, found.message
    assert found.correctness is not None and found.correctness.checks == 2


def test_different_kernels_are_screened_in_one_process(searching: LocalEvaluator, scale_problem: Problem) -> None:
    kernels = [CASES.bind({"CASE": case}) for case in (1, 2, 3, 4)] + [REPEATED.bind({"REPEAT": 2}), REPEATED]
    found = list(searching.screen(scale_problem, kernels))
    assert [evaluation.kernel_digest for evaluation in found] == [kernel.digest for kernel in kernels]
    failed = [Status.COMPILE_ERROR, Status.WRONG_VALUE, Status.CRASHED]
    assert [evaluation.status for evaluation in found] == [Status.OK, *failed, Status.OK, Status.OK]
    assert all(evaluation.config == {} and evaluation.reference is None for evaluation in found)
    assert list(searching.screen(scale_problem, [])) == []


def test_a_process_that_screens_has_the_languages_of_all_its_kernels(scale_problem: Problem) -> None:
    second = PythonKernel.parse(f"{REPEATED.source}\n# Unlike triton.\n")
    with Unguarded(settings=SEARCHING) as evaluator:
        assert all(evaluation.ok for evaluation in evaluator.screen(scale_problem, [REPEATED, second]))
        assert evaluator.processes.server.knows("triton")


def test_evaluators_beside_each_other_share_their_processes(searching: LocalEvaluator, scale_problem: Problem) -> None:
    list(searching.evaluate(scale_problem, CASES, cases(1)))
    reference = searching.processes.reference_client(scale_problem).pid
    with searching.beside(FAST) as full:
        problem = TorchProblem.of(scale_problem)
        full.prepare(problem, REPEATED)
        assert full.processes.reference_client(problem).pid == reference
        full.processes.keep(2)
        other = problem.at("rows=2")
        kept = full.processes.reference_client(other).pid
        assert full.processes.reference_client(problem).pid == reference != kept
        assert full.processes.reference_client(other).pid == kept
    assert searching.processes.reference_client(scale_problem).pid == reference, "closing it leaves the processes"
    full.processes.forget_reference()
