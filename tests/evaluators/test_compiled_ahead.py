"""When kernels and baselines are compiled: on a GPU while others measure, on a CPU never beside a measurement."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kernelwright.core import (
    Config,
    Evaluation,
    Kernel,
    Measurement,
    PythonKernel,
    Status,
    TorchProblem,
)
from kernelwright.evaluators.compilation.pool import CompileResult, CompileStatus
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.pipeline.candidate_runner import CandidateRunner
from kernelwright.evaluators.pipeline.device_access import DeviceAccess
from kernelwright.evaluators.pipeline.processes import Processes
from kernelwright.evaluators.settings import Settings
from kernelwright.evaluators.workers.device_lock import DeviceLock

from ..conftest import FAST
from .device_access import is_held


class ABench(CandidateRunner):
    """A bench whose GPU, and what runs on it, is made up; it notes what happens in which folder."""

    def __init__(self, gpu: LocalEvaluator, compiled: CompileResult) -> None:
        super().__init__("cuda", gpu.settings, gpu.processes, gpu._runner.pipeline, DeviceAccess("cuda"))
        self.compiled = compiled
        self.happened: list[tuple[str, Path | None]] = []
        self.asked: list[dict[str, Any]] = []
        """Of the compilers: sizes and strides."""
        self.locked: list[str] = []
        """What happened while others waited for the device."""
        self.times: dict[str, float] = {}
        """Of what is measured, in ms: measurement and reference."""
        self.came = threading.Event()
        self.closed = threading.Event()
        """The reference's worker has been ended."""
        self.processes.compilers = self._compilers  # type: ignore[assignment]

    def reference_for(self, problem: TorchProblem, kernel: Kernel) -> Any:
        return SimpleNamespace(
            problem=problem,
            environment={"uuid": f"made-up-{id(self.processes)}"},
            arithmetic={},
            properties={"total_memory": 80e9},
            tensor_bytes=10**9,
            close=self.closed.set,
            alive=True,
            distributions=(),
            counted={},
            described_gpu="",
        )

    def new_client(
        self, problem: TorchProblem, kernel: Kernel, cache: Path | None = None, new_worker: Any = None
    ) -> Any:
        def note(what: str) -> Callable[[], None]:
            return lambda: self.note(what, cache)

        return SimpleNamespace(
            kernel=kernel, alive=True, cache=cache, start=note("started"), open=note("opened"),
            load_ahead=lambda config: None, kill=lambda: None, end=lambda: None, close=lambda: None,
        )  # fmt: skip

    def compiles_itself(self, reference_client: Any, kernel: Kernel) -> bool:
        return False  # the server of compilers has started

    def note(self, what: str, folder: Path | None) -> None:
        self.happened.append((what, folder))
        if is_held(self._access):
            self.locked.append(what.partition(" ")[0])

    @contextlib.contextmanager
    def _compilers(self, problem: TorchProblem, cache: Path, count: int, **more: Any) -> Iterator[Any]:
        def submit(source: str) -> Future[CompileResult]:
            self.note(f"compiled {source}", cache)
            self.asked.append(more)
            self.came.set()
            future: Future[CompileResult] = Future()
            future.set_result(self.compiled)
            return future

        yield SimpleNamespace(submit=submit)

    def evaluate(self, reference_client: Any, client: Any, config: Config, *ahead: Any, **more: Any) -> Evaluation:
        assert ([replace(result, elsewhere=None) for result in ahead], more) == ([self.compiled], {})
        self.note("measured", client.cache)
        found = Evaluation(status=Status.CRASHED, kernel_digest=client.kernel.digest, message="made up")
        times = {name: Measurement(samples_ms=(ms,) * 9) for name, ms in self.times.items()}
        return found.model_copy(update=times)


class AGpu(LocalEvaluator):
    """An evaluator with such a bench."""

    def __init__(self, processes: Processes, compiled: CompileResult, settings: Settings | None = None) -> None:
        super().__init__("cuda", FAST if settings is None else settings, processes=processes)
        self.bench = self._runner = ABench(self, compiled)


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    """Importing torch takes longer than all tests: servers of a GPU are not forked from a warm one."""
    processes = Processes("cuda", FAST.limits, FAST.sandbox)
    yield processes
    processes.close()


def work(gpu: AGpu) -> list[Path]:
    """What lies where workers may write, beside the folder of the process that waits to replay."""
    gpu.processes.tidy()
    return [path for path in (gpu.processes.folder / "work").iterdir() if not path.name.startswith("replay-")]


def happened(gpu: AGpu) -> list[set[str]]:
    """What happened: each evaluation's start, then what is done at once, then its measurement."""
    names = [what.partition(" ")[0] for what, _ in gpu.bench.happened]
    assert len(names) % 4 == 0
    evaluations = [names[at : at + 4] for at in range(0, len(names), 4)]
    return [step for start, *others, end in evaluations for step in ({start}, {*others}, {end})]


ORDER = [{"started"}, {"compiled", "opened"}, {"measured"}]
SIZED = PythonKernel.parse("import triton\nSIZE = 1\nclass ModelNew: ...\n")


def test_on_a_gpu_a_kernel_is_compiled_while_others_measure(processes: Processes, scale_problem: TorchProblem) -> None:
    with AGpu(processes, CompileResult(CompileStatus.COMPILED, seconds=2.0)) as gpu:
        found: list[Evaluation] = []
        measuring = threading.Thread(
            target=lambda: found.extend(gpu.evaluate(scale_problem, SIZED, [Config({"SIZE": 2}), Config({"SIZE": 3})]))
        )
        with DeviceLock(f"made-up-{id(gpu.processes)}").held():
            measuring.start()
            assert gpu.bench.came.wait(20)
            measuring.join(0.1)
            source = SIZED.bind({"SIZE": 2}).source
            assert {what for what, _ in gpu.bench.happened} == {"started", f"compiled {source}", "opened"}
        measuring.join(20)
        list(gpu.evaluate(scale_problem, SIZED, [Config()]))
    assert happened(gpu) == ORDER * 3
    assert gpu.bench.locked == ["measured"] * 3
    folders = [folder for _, folder in gpu.bench.happened]
    assert folders[0] is not None
    assert len(set(folders[:8])) == 1, "what was compiled is there when it is measured"
    assert len(set(folders[8:])) == 1 and folders[8] != folders[0], "a last check compiles anew"
    assert len(found) == 2


def test_baselines_are_compiled_beside_the_kernel(
    processes: Processes, scale_problem: TorchProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    came: list[bool] = []
    with AGpu(processes, CompileResult(CompileStatus.COMPILED)) as gpu:
        waits = gpu.bench.came.wait
        monkeypatch.setattr(gpu.bench.pipeline, "compile_baselines", lambda client: came.append(waits(20)))
        list(gpu.evaluate(scale_problem, SIZED, [Config()]))
    assert came == [True]


@pytest.mark.parametrize("free", [True, False])
def test_what_checks_need_to_know_is_found_beside_the_compiler_where_nobody_measures(
    free: bool, processes: Processes, scale_problem: TorchProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Reference(SimpleNamespace):
        def __getattribute__(self, name: str) -> Any:
            if name in ("distributions", "counted"):
                asked.append(name)
            return super().__getattribute__(name)

    with AGpu(processes, CompileResult(CompileStatus.COMPILED)) as gpu:
        usual = gpu.bench.reference_for
        monkeypatch.setattr(gpu.bench, "reference_for", lambda *given: Reference(**vars(usual(*given))))
        monkeypatch.setattr(gpu.bench._access, "is_free", lambda client: free)
        gpu.bench.prepared(scale_problem, SIZED, Config())
    assert asked == (["distributions", "counted"] if free else [])


def test_an_interruption_does_not_wait_for_baselines(
    processes: Processes, scale_problem: TorchProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    with AGpu(processes, CompileResult(CompileStatus.COMPILED)) as gpu:

        def interrupt(*_: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(gpu.bench.pipeline, "compile_baselines", lambda client: gpu.bench.closed.wait(20))
        monkeypatch.setattr(gpu.bench, "compile_ahead", interrupt)
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            list(gpu.evaluate(scale_problem, SIZED, [Config()]))
        assert gpu.bench.closed.is_set() and time.monotonic() - start < 20


def test_other_sizes_and_strides_are_compiled_before_the_device_is_taken(
    processes: Processes, scale_problem: TorchProblem
) -> None:
    settings = replace(FAST, second_workload=True)
    with AGpu(processes, CompileResult(CompileStatus.COMPILED), settings) as gpu:
        list(gpu.evaluate(scale_problem, SIZED, [Config()]))
        assert gpu.bench.asked == [{"strides": True}, {"sizes": {"rows": 4, "columns": 64}}]
    assert gpu.bench.locked == ["measured"]


def test_what_is_measured_twice_is_compiled_twice_before_the_device_is_taken(
    processes: Processes, scale_problem: TorchProblem
) -> None:
    with AGpu(processes, CompileResult(CompileStatus.COMPILED)) as gpu:
        gpu.bench.times = {"measurement": 1.0, "reference": 99.0}
        list(gpu.evaluate(scale_problem, SIZED, [Config()]))
    assert happened(gpu) == ORDER * 2
    assert gpu.bench.locked == ["measured"] * 2
    assert gpu.bench.happened[0][1] != gpu.bench.happened[4][1], "in a folder of its own"


@pytest.mark.parametrize("status", [CompileStatus.COMPILED, CompileStatus.TIMEOUT])
def test_what_is_compiled_ahead_goes_with_the_bench(
    processes: Processes, scale_problem: TorchProblem, status: CompileStatus
) -> None:
    with AGpu(processes, CompileResult(status, "made up")) as gpu:
        for _ in range(3):
            list(gpu.evaluate(scale_problem, SIZED, [Config()]))
            assert work(gpu) == []
        for size in (2, 3):
            list(gpu.evaluate(scale_problem, SIZED, [Config({"SIZE": size})]))
            (kept,) = work(gpu)
            assert kept == gpu.bench.happened[-1][1]
        list(gpu.evaluate(scale_problem, SIZED, [Config()]))
        assert work(gpu) == []
        assert len({folder for _, folder in gpu.bench.happened}) == 5


def test_what_was_compiled_stays_for_the_next_config_where_the_worker_has_ended(
    processes: Processes, scale_problem: TorchProblem
) -> None:
    with AGpu(processes, CompileResult(CompileStatus.COMPILED)) as gpu:
        clients = []
        for size in (2, 3):
            list(gpu.evaluate(scale_problem, SIZED, [Config({"SIZE": size})]))
            clients.append(gpu.bench.client)
            gpu.bench.client.alive = False  # type: ignore[union-attr, misc]
        assert clients[0] is not clients[1]
        assert len({folder for _, folder in gpu.bench.happened}) == 1


def test_an_evaluation_that_is_broken_off_leaves_nothing(
    processes: Processes, scale_problem: TorchProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with AGpu(processes, CompileResult(CompileStatus.COMPILED)) as gpu:
        for step in ("compile_ahead", "evaluate"):
            with monkeypatch.context() as patch:
                patch.setattr(gpu.bench, step, interrupted)
                with pytest.raises(KeyboardInterrupt):
                    list(gpu.evaluate(scale_problem, SIZED, [Config()]))
            assert gpu.bench.client is None and work(gpu) == []


@pytest.mark.parametrize(
    ("refused", "status"),
    [
        (CompileResult(CompileStatus.TIMEOUT, "did not finish within 60 s (compiling)"), Status.TIMEOUT),
        (CompileResult(CompileStatus.FAILED, "no such type", log="error: line 3"), Status.COMPILE_ERROR),
    ],
)
def test_on_a_gpu_what_the_compiler_refuses_never_takes_the_device(
    processes: Processes, scale_problem: TorchProblem, refused: CompileResult, status: Status
) -> None:
    with AGpu(processes, refused) as gpu, DeviceLock(f"made-up-{id(gpu.processes)}").held():
        (evaluation,) = gpu.evaluate(scale_problem, SIZED, [Config()])
        planned, plan = gpu.plan(scale_problem, SIZED)
    assert (evaluation.status, evaluation.message, evaluation.log) == (status, refused.message, refused.log)
    assert (planned.status, plan) == (status, None)


def test_on_a_cpu_nothing_compiles_beside_a_measurement(
    evaluator: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_compilers(*_: Any) -> None:
        raise AssertionError("a compiler was started")

    monkeypatch.setattr(evaluator.processes, "compilers", no_compilers)
    (evaluation,) = evaluator.evaluate(scale_problem, scale_kernel, [Config()])
    assert evaluation.status is Status.OK
