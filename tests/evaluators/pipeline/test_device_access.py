"""What is done while others wait for the device, by requests; a CPU stands for the GPU here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from kernelwright.core import Config, Kernel, PythonKernel, Status, TorchProblem
from kernelwright.evaluators.candidate.process import CandidateProcess
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.pipeline.device_access import SHARES, DeviceAccess
from kernelwright.evaluators.reference.client import ReferenceClient
from kernelwright.evaluators.workers.client import Worker, WorkerDiedError
from kernelwright.evaluators.workers.device_lock import DeviceLock
from kernelwright.evaluators.workers.server_client import ForkServer

from ...conftest import FAST, PROVING, SCALE_KERNEL, Unguarded, torch_kernel
from ..device_access import is_exclusive, is_held
from ..test_search import SEARCHING

PLANS = tuple(f"candidate {op}" for op in ("load_plan", "prepare", "go", "outputs"))


class Seen:
    """Requests to both workers, and workers that were started, each with whether others waited."""

    def __init__(self) -> None:
        self.access: DeviceAccess | None = None
        self.free: Counter[str] = Counter()
        self.shared: Counter[str] = Counter()
        """While others waited that measure."""
        self.locked: Counter[str] = Counter()
        """While all others waited."""

    def note(self, what: str) -> None:
        assert self.access is not None
        held = self.shared if is_held(self.access) else self.free
        (self.locked if is_exclusive(self.access) else held)[what] += 1


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    found, really_asked, really_forked = Seen(), ReferenceClient._ask, ForkServer.fork
    really_asked_candidate = CandidateProcess.ask

    def ask(self: ReferenceClient, seconds: float, op: str, **arguments: Any) -> Any:
        found.note(op)
        return really_asked(self, seconds, op, **arguments)

    def fork(self: ForkServer, role: str, *args: Any, **options: Any) -> Any:
        found.note(role)
        return really_forked(self, role, *args, **options)

    def ask_candidate(self: CandidateProcess, form: Any, seconds: float, op: str, **arguments: Any) -> Any:
        found.note(f"candidate {op}")
        return really_asked_candidate(self, form, seconds, op, **arguments)

    monkeypatch.setattr(ReferenceClient, "_ask", ask)
    monkeypatch.setattr(CandidateProcess, "ask", ask_candidate)
    monkeypatch.setattr(ForkServer, "fork", fork)
    return found


@pytest.fixture
def evaluator(evaluator: LocalEvaluator) -> Iterator[LocalEvaluator]:
    """Uses the processes that other tests use, and takes the device for itself."""
    with evaluator.beside() as fresh:
        yield fresh


@pytest.fixture
def proving(proving: LocalEvaluator) -> Iterator[LocalEvaluator]:
    with proving.beside() as fresh:
        yield fresh


@pytest.fixture
def as_on_a_gpu(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets an evaluator take a CPU for a made-up GPU: too small to share, unless its memory is given."""

    def let(evaluator: LocalEvaluator, memory_bytes: float = 0.0) -> None:
        seen.access = evaluator._runner._access
        seen.access._device = "cuda"
        client_of = evaluator.processes.reference_client

        def with_memory(problem: TorchProblem) -> ReferenceClient:
            client = client_of(problem)
            # A GPU's, not asked of the worker.
            monkeypatch.setattr(client, "properties", {"total_memory": memory_bytes, "L2_cache_size": 50e6})
            return client

        monkeypatch.setattr(evaluator.processes, "reference_client", with_memory)

    return let


ENOUGH_BYTES = 1e12
MEASURED = ("time", "time_baseline", "hand_calls", "ceilings", "candidate time", "candidate profile")


def test_checks_share_a_gpu_that_is_large_enough_and_what_is_timed_has_it_alone(
    as_on_a_gpu: Callable[..., None],
    proving: LocalEvaluator,
    seen: Seen,
    scale_problem: TorchProblem,
    scale_kernel: Kernel,
) -> None:
    as_on_a_gpu(proving, ENOUGH_BYTES)
    (found,) = proving.evaluate(scale_problem, scale_kernel, [Config()])
    assert found.ok and found.replay is not None and found.replay.replayed
    assert {op for op in MEASURED if seen.locked[op]} >= {"time", "hand_calls", "candidate profile"}
    assert not any(seen.shared[op] or seen.free[op] for op in MEASURED)
    for op in ("check", "hand_inputs", "candidate run", "candidate record"):
        assert seen.shared[op] and not seen.locked[op] and not seen.free[op], op
    assert seen.access is not None and not is_held(seen.access)


def test_a_check_gives_way_between_its_steps(
    as_on_a_gpu: Callable[..., None],
    proving: LocalEvaluator,
    seen: Seen,
    scale_problem: TorchProblem,
    scale_kernel: Kernel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    as_on_a_gpu(proving, ENOUGH_BYTES)
    gave_way: Counter[str] = Counter()
    last = ""

    def noting(note: Callable[[str], None], what: str) -> None:
        nonlocal last
        last = what
        note(what)

    monkeypatch.setattr(seen, "note", partial(noting, seen.note))
    monkeypatch.setattr(DeviceLock, "yield_to_waiter", lambda lock: gave_way.update([last]))
    (found,) = proving.evaluate(scale_problem, scale_kernel, [Config()])
    assert found.ok
    assert gave_way["check"] >= 3, "between the comparisons of a launch plan"
    assert len(gave_way) >= 6, "and between the stages"


@pytest.mark.parametrize(("device", "before"), [("cuda", ["generate_ahead"]), ("cpu", [])])
def test_torchs_compiler_begins_before_others_have_to_wait(
    evaluator: LocalEvaluator, seen: Seen, scale_problem: TorchProblem, device: str, before: list[str]
) -> None:
    seen.access, evaluator.device = evaluator._runner._access, device
    evaluator.generated_code(scale_problem)
    assert [op for op in ("generate_ahead", "generate") if seen.free[op]] == before
    assert seen.locked["generate"] == 1


def test_finalists_are_checked_beside_others_and_timed_alone(
    as_on_a_gpu: Callable[..., None],
    evaluator: LocalEvaluator,
    seen: Seen,
    scale_problem: TorchProblem,
    scale_kernel: Kernel,
) -> None:
    as_on_a_gpu(evaluator, ENOUGH_BYTES)
    found = evaluator.compare(scale_problem, scale_kernel, [Config({"BLOCK": 64}), Config({"BLOCK": 128})])
    assert [evaluation.status for evaluation in found] == [Status.OK] * 2, found
    assert seen.locked["time"] and seen.shared["check"]
    assert not any(seen.shared[op] or seen.free[op] for op in MEASURED) and not seen.locked["check"]


def test_a_problem_that_is_large_for_the_device_has_it_alone(
    as_on_a_gpu: Callable[..., None],
    evaluator: LocalEvaluator,
    seen: Seen,
    scale_problem: TorchProblem,
    scale_kernel: Kernel,
) -> None:
    as_on_a_gpu(evaluator, 10_000)
    (found,) = evaluator.evaluate(scale_problem, scale_kernel, [Config()])
    assert found.ok and seen.locked["check"] and not seen.shared["check"]


@pytest.mark.parametrize(("room", "shares"), [(SHARES, False), (SHARES + 1, True)])
def test_a_gpu_of_64_times_the_memory_is_shared(
    as_on_a_gpu: Callable[..., None],
    evaluator: LocalEvaluator,
    seen: Seen,
    scale_problem: TorchProblem,
    room: int,
    shares: bool,
) -> None:
    tensor_bytes = 4 * (32 * 256 + 256 + 32 * 256)
    as_on_a_gpu(evaluator, room * tensor_bytes)
    client = evaluator.processes.reference_client(scale_problem)
    assert client.tensor_bytes == tensor_bytes, "input, weight and output"
    assert seen.access is not None
    with seen.access.shared(client):
        assert is_held(seen.access) and is_exclusive(seen.access) is not shares


@pytest.mark.parametrize(("room", "evaluations"), [(ENOUGH_BYTES, 2), (10_000, 1)])
def test_a_kernel_that_finds_too_little_memory_beside_others_is_evaluated_again_alone(
    as_on_a_gpu: Callable[..., None],
    evaluator: LocalEvaluator,
    seen: Seen,
    scale_problem: TorchProblem,
    room: float,
    evaluations: int,
) -> None:
    hungry = torch_kernel("raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB')")
    as_on_a_gpu(evaluator, room)
    (found,) = evaluator.evaluate(scale_problem, hungry, [Config()])
    assert found.status is Status.RUNTIME_ERROR and "out of memory" in found.message
    assert (seen.shared["state"], seen.locked["state"]) == (evaluations - 1, 1)


def test_a_kernel_that_finds_too_little_memory_beside_what_the_reference_keeps_is_evaluated_again_without_it(
    as_on_a_gpu: Callable[..., None], seen: Seen, scale_problem: TorchProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReferenceClient, "keeps_memory", property(lambda self: not self._saves))
    hungry = torch_kernel("raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB')")
    with Unguarded(settings=FAST) as evaluator:  # its reference keeps nothing afterwards
        as_on_a_gpu(evaluator, 10_000)
        for evaluations in (2, 3):  # once it keeps nothing, that is the kernel's own fault
            (found,) = evaluator.evaluate(scale_problem, hungry, [Config()])
            assert found.status is Status.RUNTIME_ERROR and seen.locked["state"] == evaluations
    assert seen.locked["save_memory"] == 1


def test_a_check_at_other_sizes_that_finds_too_little_memory_beside_others_is_done_again_alone(
    as_on_a_gpu: Callable[..., None], seen: Seen, scale_problem: TorchProblem
) -> None:
    little = "forward(self, x):\n        if len(x) == 4:\n            raise RuntimeError('CUDA out of memory')"
    kernel = PythonKernel.parse(SCALE_KERNEL.replace("forward(self, x):", little))
    with Unguarded(settings=replace(PROVING, second_workload=True)) as evaluator:
        as_on_a_gpu(evaluator, ENOUGH_BYTES)
        (found,) = evaluator.evaluate(scale_problem, kernel, [Config()])
    assert found.ok and found.second_workload is not None and "out of memory" in found.second_workload.message
    assert seen.shared["resize"] and seen.locked["resize"]


def test_a_plan_is_compiled_while_others_measure(
    as_on_a_gpu: Callable[..., None],
    proving: LocalEvaluator,
    seen: Seen,
    scale_problem: TorchProblem,
    scale_kernel: Kernel,
) -> None:
    as_on_a_gpu(proving)
    (found,) = proving.evaluate(scale_problem, scale_kernel, [Config()])
    assert found.ok and found.replay is not None and found.replay.replayed
    assert {"plan compiling", "replay check"} <= set(found.stages)
    assert {op: seen.free[op] for op in PLANS if seen.free[op]} == {"candidate load_plan": 1}
    assert all(seen.locked[op] for op in PLANS[1:]) and not seen.locked["candidate load_plan"]
    assert seen.access is not None and not is_exclusive(seen.access)


def test_the_device_is_taken_again_where_a_plan_ends_the_process(
    as_on_a_gpu: Callable[..., None],
    proving: LocalEvaluator,
    seen: Seen,
    scale_problem: TorchProblem,
    scale_kernel: Kernel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    as_on_a_gpu(proving)
    call = Worker.call

    def dies(self: Worker, seconds: float, **request: Any) -> Any:
        if request["op"] == "load_plan":
            raise WorkerDiedError(-11)
        return call(self, seconds, **request)

    monkeypatch.setattr(Worker, "call", dies)
    (found,) = proving.evaluate(scale_problem, scale_kernel, [Config()])
    assert found.status is Status.CRASHED and "SIGSEGV" in found.message
    assert seen.access is not None and not is_exclusive(seen.access)


def test_on_a_cpu_nobody_measures_while_a_plan_is_compiled(
    proving: LocalEvaluator, seen: Seen, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    seen.access = proving._runner._access
    (found,) = proving.evaluate(scale_problem, scale_kernel, [Config()])
    assert found.ok and (seen.free["candidate load_plan"], seen.locked["candidate load_plan"]) == (0, 1)


def test_a_new_worker_opens_its_device_before_others_have_to_wait(seen: Seen, scale_problem: TorchProblem) -> None:
    """A rejected or wrong kernel ends its worker, so that a search needs another one for the next."""
    kernel = torch_kernel("return x * self.weight + (CASE == 1)", top="CASE = 0")
    with Unguarded(settings=SEARCHING) as searching:
        seen.access = searching._runner._access
        found = list(searching.evaluate(scale_problem, kernel, [Config({"CASE": 1}), Config({"CASE": 0})]))
    assert [evaluation.status for evaluation in found] == [Status.WRONG_VALUE, Status.OK]
    assert (seen.free["candidate.worker"], seen.locked["candidate.worker"]) == (2, 0)


def test_code_that_is_imported_does_not_keep_others_waiting(
    evaluator: LocalEvaluator, seen: Seen, scale_problem: TorchProblem
) -> None:
    """It may never end."""
    endless = torch_kernel("return x * self.weight", top="import time\nwhile True:\n    time.sleep(0.1)")
    seen.access = evaluator._runner._access
    limits = replace(FAST.limits, compile_s=2.0)
    with Unguarded(settings=replace(FAST, limits=limits)) as impatient:
        seen.access = impatient._runner._access
        (found,) = impatient.evaluate(scale_problem, endless, [Config()])
    assert found.status is Status.TIMEOUT and "loading" in found.message
    assert (seen.free["candidate load"], seen.locked["candidate load"]) == (1, 0)


def test_what_was_loaded_before_the_device_was_taken_is_not_loaded_again(
    evaluator: LocalEvaluator, seen: Seen, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    seen.access = evaluator._runner._access
    (found,) = evaluator.evaluate(scale_problem, scale_kernel, [Config({"BLOCK": 8})])
    assert found.ok and (seen.free["candidate load"], seen.locked["candidate load"]) == (1, 0)
