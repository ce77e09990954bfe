"""What the local evaluator promises beyond its statuses."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kernelwright.core import (
    Config,
    Evaluation,
    Kernel,
    KernelError,
    Measurement,
    ProblemError,
    PythonKernel,
    Status,
    TorchProblem,
)
from kernelwright.evaluators.candidate.client import CandidateClient
from kernelwright.evaluators.candidate.verified import CheckPlan
from kernelwright.evaluators.compilation.pool import CompileResult, CompileStatus
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.pipeline.bench import Bench
from kernelwright.evaluators.pipeline.device_access import DeviceAccess
from kernelwright.evaluators.reference.client import ReferenceClient
from kernelwright.evaluators.settings import Settings
from kernelwright.evaluators.workers.channel import Message
from kernelwright.evaluators.workers.device_lock import DeviceLock
from kernelwright.evaluators.workers.problem_file import problem_options

from ..conftest import FAST, SCALE_PROBLEM, Unguarded, torch_kernel
from .device_access import is_held


def test_many_configs_in_one_worker(
    evaluator: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel
) -> None:
    configs = [Config({"BLOCK": size}) for size in (4, 8, 16)]
    evaluations = list(evaluator.evaluate(scale_problem, scale_kernel, configs))
    assert [e.config["BLOCK"] for e in evaluations] == [4, 8, 16]
    for evaluation in evaluations:
        assert evaluation.status is Status.OK
        assert evaluation.speedup is not None
        assert evaluation.speedup.low <= evaluation.speedup.ratio <= evaluation.speedup.high
        assert evaluation.compile_s is not None
        assert evaluation.compile_s > 0
        assert evaluation.kernel_digest == scale_kernel.digest


def test_a_crash_costs_one_config(evaluator: LocalEvaluator, scale_problem: TorchProblem) -> None:
    kernel = torch_kernel("import os; os._exit(1) if SIZE == 2 else None; return x * self.weight", top="SIZE = 1")
    configs = [Config({"SIZE": size}) for size in (1, 2, 3)]
    statuses = [e.status for e in evaluator.evaluate(scale_problem, kernel, configs)]
    assert statuses == [Status.OK, Status.CRASHED, Status.OK]


def test_seeds_are_drawn_per_run_and_written_down(scale_problem: TorchProblem, scale_kernel: Kernel) -> None:
    with LocalEvaluator(settings=FAST, rng=random.Random(5)) as one:
        first, second = (next(iter(one.evaluate(scale_problem, scale_kernel, [Config()]))) for _ in range(2))
    assert first.correctness is not None
    assert second.correctness is not None
    assert len({*first.correctness.seeds, *second.correctness.seeds}) == 4


def test_weights_change_between_trials(evaluator: LocalEvaluator, scale_problem: TorchProblem) -> None:
    remembers = torch_kernel(
        "import builtins; w = getattr(self, 'kept', None); self.kept = self.weight.clone() if w is None else w; "
        "return x * self.kept"
    )
    evaluation = next(iter(evaluator.evaluate(scale_problem, remembers, [Config()])))
    assert evaluation.status is Status.WRONG_VALUE


def test_triton_on_a_cpu_is_checked_not_timed(evaluator: LocalEvaluator, scale_problem: TorchProblem) -> None:
    kernel = PythonKernel.parse(
        """
import torch
import triton
import triton.language as tl
from torch import nn

BLOCK = 64


@triton.jit
def scale(x, w, y, n, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < size
    tl.store(y + offsets, tl.load(x + offsets, mask) * tl.load(w + offsets % n, mask), mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))

    def forward(self, x):
        y = torch.empty_like(x)
        scale[(triton.cdiv(x.numel(), BLOCK),)](x, self.weight, y, x.shape[1], x.numel(), BLOCK=BLOCK)
        return y
"""
    )
    evaluation = next(iter(evaluator.evaluate(scale_problem.at("tiny"), kernel, [Config()])))
    assert (evaluation.status, evaluation.message) == (Status.OK, "checked, not timed")
    assert evaluation.measurement is None
    assert evaluation.speedup is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("return x * self.weight", "raise ValueError('broken reference')"), "broken reference"),
        (("return [torch.randn(rows, columns)]", "return [undefined]"), "undefined"),
    ],
)
def test_a_broken_reference_is_the_problems_fault(
    evaluator: LocalEvaluator, scale_kernel: Kernel, change: tuple[str, str], says: str
) -> None:
    broken = TorchProblem(id="level1/1_998", name="998_Broken", source=SCALE_PROBLEM.replace(*change))
    with pytest.raises(ProblemError, match=says):
        list(evaluator.evaluate(broken, scale_kernel, [Config()]))


def test_a_cuda_kernel_is_refused_on_a_cpu(evaluator: LocalEvaluator, scale_problem: TorchProblem) -> None:
    kernel = PythonKernel.parse("import tilelang.language as T\nclass ModelNew: ...\n")
    with pytest.raises(KernelError, match="written for cuda"):
        list(evaluator.evaluate(scale_problem, kernel, [Config()]))


def test_profile_counts_the_reference(evaluator: LocalEvaluator, scale_problem: TorchProblem) -> None:
    profile = evaluator.profile(scale_problem)
    assert profile.min_bytes == 4 * (2 * 32 * 256 + 256)
    assert profile.flops == 32 * 256
    assert profile.matrix_flops == 0
    assert profile.operators == ("mul",)
    assert profile.ceilings.copy_gb_s > 0


def test_nothing_is_left_behind(scale_problem: TorchProblem, scale_kernel: Kernel) -> None:
    with LocalEvaluator(settings=FAST) as one:
        folder, server = one.processes.folder, one.processes.server.pid
        list(one.evaluate(scale_problem, scale_kernel, [Config()]))
        assert folder.exists()
    assert not folder.exists()
    assert not Path(f"/proc/{server}").exists()


@pytest.mark.parametrize("unreadable", [0, 1])
def test_outputs_go_through_a_file_where_memory_cannot_be_shared(
    evaluator: LocalEvaluator, scale_problem: TorchProblem, scale_kernel: Kernel, unreadable: int
) -> None:
    """Whether it is the candidate that cannot hand it over, as here on a CPU, or the reference worker that cannot open
    it."""
    reference_client = evaluator.processes.reference_client(scale_problem)
    checks: list[Message] = []

    class Blind:
        problem, effects = reference_client.problem, reference_client.effects
        written_weights = reference_client.written_weights

        def call(self, op: str, **arguments: Any) -> Message:
            answer = reference_client.call(op, **arguments)
            if op == "check":
                checks.append(answer)
                if len(checks) <= unreadable:
                    return {"status": "crashed", "message": "cannot be opened", "unreadable": True}
            return answer

    new_worker = evaluator.processes.candidate(scale_problem)
    with contextlib.closing(CandidateClient(scale_kernel, FAST.limits, new_worker, share=True)) as bench:
        checked = bench.check(cast(ReferenceClient, Blind()), Config(), CheckPlan((1, 2), thorough=False))
    assert checked.correctness.passed and len(checks) == 2 + unreadable


def test_a_problem_is_never_seen_half_written(tmp_path: Path) -> None:
    """Workers read the file while the next one's options are made."""
    source = SCALE_PROBLEM + "# padding\n" * 20_000 + "LAST = True\n"
    problem = TorchProblem(id="level1/1_997", name="997_Long", source=source)
    path = Path(problem_options(problem, tmp_path)["problem"])
    done = threading.Event()

    def rewrite() -> None:
        while not done.is_set():
            problem_options(problem, tmp_path)

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        assert all(path.read_text() == source for _ in range(300))
    finally:
        done.set()
        writer.join()


class ABench(Bench):
    """A bench whose GPU, and what runs on it, is made up; it notes what happens in which folder."""

    def __init__(self, gpu: LocalEvaluator, compiled: CompileResult) -> None:
        super().__init__("cuda", gpu.settings, gpu.processes, gpu._bench.pipeline, DeviceAccess("cuda"))
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
        )

    def new_client(self, problem: TorchProblem, kernel: Kernel, cache: Path | None = None) -> Any:
        def note(what: str) -> Callable[[], None]:
            return lambda: self.note(what, cache)

        return SimpleNamespace(
            kernel=kernel, alive=True, cache=cache, close=lambda: None, start=note("started"), open=note("opened")
        )

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
        assert ([replace(one, elsewhere=None) for one in ahead], more) == ([self.compiled], {})
        self.note("measured", client.cache)
        found = Evaluation(status=Status.CRASHED, kernel_digest=client.kernel.digest, message="made up")
        times = {name: Measurement(samples_ms=(ms,) * 9) for name, ms in self.times.items()}
        return found.model_copy(update=times)


class AGpu(LocalEvaluator):
    """An evaluator with such a bench."""

    def __init__(self, compiled: CompileResult, settings: Settings | None = None) -> None:
        super().__init__("cuda", FAST if settings is None else settings)
        self.bench = self._bench = ABench(self, compiled)


def work(gpu: AGpu) -> list[Path]:
    """What lies where workers may write."""
    return list((gpu.processes.folder / "work").iterdir())


SIZED = PythonKernel.parse("import triton\nSIZE = 1\nclass ModelNew: ...\n")


def test_on_a_gpu_a_kernel_is_compiled_while_others_measure(scale_problem: TorchProblem) -> None:
    with AGpu(CompileResult(CompileStatus.COMPILED, seconds=2.0)) as gpu:
        found: list[Evaluation] = []
        measuring = threading.Thread(
            target=lambda: found.extend(gpu.evaluate(scale_problem, SIZED, [Config({"SIZE": 2}), Config({"SIZE": 3})]))
        )
        with DeviceLock(f"made-up-{id(gpu.processes)}").held():
            measuring.start()
            assert gpu.bench.came.wait(20)
            measuring.join(0.1)
            source = SIZED.bind({"SIZE": 2}).source
            assert [what for what, _ in gpu.bench.happened] == ["started", f"compiled {source}", "opened"]
        measuring.join(20)
        list(gpu.evaluate(scale_problem, SIZED, [Config()]))
    order = ["started", "compiled", "opened", "measured"]
    assert [what.partition(" ")[0] for what, _ in gpu.bench.happened] == order * 3
    assert gpu.bench.locked == ["measured"] * 3
    folders = [folder for _, folder in gpu.bench.happened]
    assert folders[0] is not None
    assert len(set(folders[:8])) == 1, "what was compiled is there when it is measured"
    assert len(set(folders[8:])) == 1 and folders[8] != folders[0], "a last check compiles anew"
    assert len(found) == 2


def test_baselines_are_compiled_beside_the_kernel(scale_problem: TorchProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[bool] = []
    with AGpu(CompileResult(CompileStatus.COMPILED)) as gpu:
        waits = gpu.bench.came.wait
        monkeypatch.setattr(gpu.bench.pipeline, "compile_baselines", lambda client: came.append(waits(20)))
        list(gpu.evaluate(scale_problem, SIZED, [Config()]))
    assert came == [True]


def test_an_interruption_does_not_wait_for_baselines(
    scale_problem: TorchProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    with AGpu(CompileResult(CompileStatus.COMPILED)) as gpu:

        def interrupt(*_: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(gpu.bench.pipeline, "compile_baselines", lambda client: gpu.bench.closed.wait(20))
        monkeypatch.setattr(gpu.bench, "compile_ahead", interrupt)
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            list(gpu.evaluate(scale_problem, SIZED, [Config()]))
        assert gpu.bench.closed.is_set() and time.monotonic() - start < 20


def test_other_sizes_and_strides_are_compiled_before_the_device_is_taken(scale_problem: TorchProblem) -> None:
    settings = replace(FAST, second_workload=True)
    with AGpu(CompileResult(CompileStatus.COMPILED), settings) as gpu:
        list(gpu.evaluate(scale_problem, SIZED, [Config()]))
        assert gpu.bench.asked == [{"strides": True}, {"sizes": {"rows": 4, "columns": 64}}]
    assert gpu.bench.locked == ["measured"]


def test_what_is_measured_twice_is_compiled_twice_before_the_device_is_taken(scale_problem: TorchProblem) -> None:
    with AGpu(CompileResult(CompileStatus.COMPILED)) as gpu:
        gpu.bench.times = {"measurement": 1.0, "reference": 99.0}
        list(gpu.evaluate(scale_problem, SIZED, [Config()]))
    happened = [what.partition(" ")[0] for what, _ in gpu.bench.happened]
    assert happened == ["started", "compiled", "opened", "measured"] * 2
    assert gpu.bench.locked == ["measured"] * 2
    assert gpu.bench.happened[0][1] != gpu.bench.happened[4][1], "in a folder of its own"


@pytest.mark.parametrize("status", [CompileStatus.COMPILED, CompileStatus.TIMEOUT])
def test_what_is_compiled_ahead_goes_with_the_bench(scale_problem: TorchProblem, status: CompileStatus) -> None:
    with AGpu(CompileResult(status, "made up")) as gpu:
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


def test_an_evaluation_that_is_broken_off_leaves_nothing(
    scale_problem: TorchProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with AGpu(CompileResult(CompileStatus.COMPILED)) as gpu:
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
    scale_problem: TorchProblem, refused: CompileResult, status: Status
) -> None:
    with AGpu(refused) as gpu, DeviceLock(f"made-up-{id(gpu.processes)}").held():
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


def test_a_kernel_sees_no_keys(scale_problem: TorchProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-kernels")
    monkeypatch.setenv("KERNELWRIGHT_SEEN", "this one is")
    spying = torch_kernel(
        'raise ValueError(f\'{os.environ.get("OPENAI_API_KEY")}, {os.environ["KERNELWRIGHT_SEEN"]}\')'
    )
    spying = PythonKernel.parse(spying.source.replace("import torch\n", "import os\n\nimport torch\n", 1))
    with Unguarded(settings=FAST) as fresh:
        (found,) = fresh.evaluate(scale_problem, spying, [Config()])
    assert found.message.startswith("ValueError: None, this one is")
