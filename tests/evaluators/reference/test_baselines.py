"""Baselines: compiled for real, timed interleaved with eager, cached."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kernelwright.core import Measurement, TorchProblem
from kernelwright.core.cache import Cache
from kernelwright.evaluators.reference.arithmetic import STRICT, Arithmetic, Tf32
from kernelwright.evaluators.reference.baselines import BaselineCache, Baselines, CachedBaseline, baseline_key
from kernelwright.evaluators.reference.client import ReferenceClient
from kernelwright.evaluators.settings import Sampling
from kernelwright.evaluators.timing.clock import Clock, always
from kernelwright.evaluators.timing.sampling import interleave

from ...conftest import SCALE_PROBLEM
from ..conftest import NewWorker

ENVIRONMENT = {"device": "NVIDIA H200", "torch": "2.11", "triton": "3.6", "uuid": "1234", "python": "3.12"}
PROBLEM = TorchProblem(
    id="level1/1_19",
    name="19_ReLU",
    source="N = 4\n\n\nclass Model: ...\n\n\ndef get_inputs(): ...\n\n\ndef get_init_inputs(): ...\n",
)


def measurement(*samples_ms: float) -> Measurement:
    return Measurement(samples_ms=samples_ms, method="CUDA events, L2 flushed", warmup=3)


def test_a_ratio_to_eager_is_remembered(tmp_path: Path) -> None:
    baseline = CachedBaseline.between(measurement(*[0.5] * 8), measurement(*[1.0] * 8), ENVIRONMENT)
    assert (baseline.ratio, baseline.low, baseline.high) == (0.5, 0.5, 0.5)
    BaselineCache(tmp_path / "new").put("key", baseline)
    BaselineCache(tmp_path / "new").put(
        "other", CachedBaseline.between(measurement(2.0), measurement(1.0), ENVIRONMENT)
    )
    known = BaselineCache(tmp_path / "new").get("key")
    assert known == baseline
    now = known.beside(measurement(1.0, 1.2, 1.4))
    assert now.samples_ms == pytest.approx((0.5, 0.6, 0.7))
    assert now.method == "0.5 times eager [0.5, 0.5], as measured before"


def test_what_cannot_be_read_is_measured_again(tmp_path: Path) -> None:
    memory = BaselineCache(tmp_path)
    path = tmp_path / "baselines.json"
    for content in ("{", "[]", json.dumps({"key": {"ratio": -1}}), json.dumps({"key": 3})):
        path.write_text(content)
        assert memory.get("key") is None
    memory.put("key", CachedBaseline.between(measurement(1.0), measurement(1.0), ENVIRONMENT))
    assert memory.get("key") is not None and memory.get("other") is None
    assert BaselineCache(None).get("key") is None
    BaselineCache(None).put("key", CachedBaseline.between(measurement(1.0), measurement(1.0), ENVIRONMENT))


def test_a_memory_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    remembered = Cache(tmp_path / "file" / "below.json", int)
    remembered.put("key", 1)
    assert remembered.get("key") is None


def test_keys_tell_apart_what_a_ratio_depends_on() -> None:
    keys = [
        baseline_key("compile", PROBLEM, ENVIRONMENT, "580"),
        baseline_key("max-autotune", PROBLEM, ENVIRONMENT, "580"),
        baseline_key("compile", PROBLEM.at("N=8"), ENVIRONMENT, "580"),
        baseline_key("compile", PROBLEM, {**ENVIRONMENT, "device": "NVIDIA H100"}, "580"),
        baseline_key("compile", PROBLEM, {**ENVIRONMENT, "torch": "2.12"}, "580"),
        baseline_key("compile", PROBLEM, ENVIRONMENT, "590"),
        baseline_key("compile", PROBLEM, ENVIRONMENT, "580", graph=True),
        baseline_key("compile", PROBLEM, {**ENVIRONMENT, "tf32": "off"}, "580"),
        baseline_key("compile", PROBLEM, {**ENVIRONMENT, "tf32": "convolutions"}, "580"),
    ]
    assert len(set(keys)) == len(keys)
    assert baseline_key("compile", PROBLEM, {**ENVIRONMENT, "uuid": "5678"}, "580") == keys[0]


def test_torch_compiles_and_is_timed_interleaved_with_eager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product alone: inductor has no C++ to generate for it, which would take most of the time."""
    import torch._inductor.config

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")  # all three are put back afterwards
    monkeypatch.setenv("TRITON_CACHE_DIR", "")
    monkeypatch.setattr(torch._inductor.config, "cpp_cache_precompile_headers", True)
    clock = Clock("cpu")
    model, calls = torch.nn.Linear(64, 64), itertools.count()
    buffers = [torch.randn(32, 64) for _ in range(2)]
    drawn: list[int] = []

    def next_inputs() -> tuple[int, list[torch.Tensor]]:
        drawn.append(next(calls) % 2)
        return drawn[-1], [buffers[drawn[-1]].uniform_()]

    class Refused(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no such thing")

    with torch.no_grad():
        baselines = Baselines(clock, tmp_path / "inductor", Arithmetic(default=Tf32(convolutions=True)))
        answer = baselines.compile("compile", model, [buffers[0]])
        assert answer["error"] is None and answer["seconds"] > 0.05
        assert baselines.compile("compile", model, [buffers[0]])["seconds"] == 0.0
        assert "no such thing" in baselines.compile("max-autotune", Refused(), [buffers[0]])["error"]

        def eager(samples: int) -> dict[str, object]:
            return clock.sample(always(lambda: model(buffers[0])), samples).message(clock.method)

        def compiled(samples: int) -> dict[str, object]:
            return baselines.time("compile", model, next_inputs, samples)

        frames = torch._dynamo.utils.counters["frames"].copy()
        STRICT.set()  # as eager is timed beside it
        first, second = interleave([eager, compiled], Sampling(seconds=0.1, max_samples=40))
        assert torch._dynamo.utils.counters["frames"] == frames  # nothing was compiled while it was timed
    assert len(drawn) == len(second.measurement.samples_ms) + second.measurement.warmup
    assert drawn[:4] == [0, 1, 0, 1]
    assert first.measurement.median_ms > 0
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "inductor")
    assert any((tmp_path / "inductor").rglob("*.py")), "inductor's cache is somewhere else"
    assert not torch._inductor.config.cpp_cache_precompile_headers, "each process would make them anew"


COMPILED = """
import sys
from pathlib import Path
import torch
from kernelwright.evaluators.reference.arithmetic import Arithmetic, Tf32
from kernelwright.evaluators.reference.baselines import Baselines
from kernelwright.evaluators.timing.clock import Clock

class Scaled(torch.nn.Module):
    def forward(self, x):
        return 2 * x + 1

baselines = Baselines(Clock("cpu"), Path(sys.argv[1]), Arithmetic(default=Tf32(convolutions=True)))
with torch.no_grad():
    print(baselines.compile("compile", Scaled(), [torch.ones(8)])["error"])
"""


@pytest.mark.parametrize("damaged", [lambda data: data[: len(data) // 2], lambda data: b""], ids=["half", "empty"])
def test_a_damaged_cache_is_compiled_anew(tmp_path: Path, damaged: Callable[[bytes], bytes]) -> None:
    """As a reboot or a full disk leaves it: the baseline was missing until somebody removed the cache."""

    def error() -> str:
        command = [sys.executable, "-c", COMPILED, str(tmp_path / "inductor")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert error() == "None"
    for path in [path for path in (tmp_path / "inductor").rglob("*") if path.is_file()]:
        path.write_bytes(damaged(path.read_bytes()))
    assert error() == "None"


def test_what_is_compiled_ahead_is_neither_run_then_nor_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from torch._dynamo.utils import counters
    from torch._inductor.runtime.benchmarking import benchmarker

    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, "")

    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = torch.zeros(1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x + self.calls

    def compiled() -> int:
        return int(counters["inductor"]["fxgraph_cache_miss"])

    model, inputs = Counting(), [torch.zeros(2)]
    with torch.no_grad():
        baselines = Baselines(Clock("cpu"), tmp_path / "inductor", Arithmetic())
        before = compiled()
        assert baselines.compile_ahead("compile", model, inputs) == {"compiled": True}
        assert (compiled() - before, float(model.calls)) == (1, 0.0)
        assert baselines.compile_ahead("compile", model, inputs) == {"compiled": False}
        assert baselines.compile_ahead("max-autotune", model, inputs) == {"compiled": False}
        answer = baselines.compile("compile", model, inputs)
        assert answer["error"] is None
        assert (compiled() - before, float(model.calls)) == (1, 2.0)
    assert benchmarker.benchmark(lambda: None, device="cpu") >= 0.0, "it measures again"


def test_what_inductor_would_measure_is_not_compiled_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from torch._inductor.runtime.benchmarking import benchmarker

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")
    monkeypatch.setenv("TRITON_CACHE_DIR", "")
    measured: list[int] = []

    def inductor(*_: object) -> object:
        return benchmarker.benchmark(lambda: measured.append(1), device="cpu")

    monkeypatch.setattr("torch._dynamo.lookup_backend", lambda name: inductor)
    baselines = Baselines(Clock("cpu"), tmp_path / "inductor", Arithmetic())
    with torch.no_grad():
        assert baselines.compile_ahead("compile", torch.nn.Linear(4, 4), [torch.zeros(2, 4)]) == {"compiled": False}
    assert measured == []


@pytest.fixture(autouse=True)
def _switches_are_put_back() -> Iterator[None]:
    before = Tf32.now()
    yield
    before.set()


def test_defaults_are_timed_with_their_own_switches_and_eager_is_not() -> None:
    import torch

    class Noting(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.add(Tf32.now())
            return x

    seen: set[Tf32] = set()
    defaults = Tf32(products=True, convolutions=True)
    STRICT.set()
    baselines = Baselines(Clock("cpu"), None, Arithmetic(default=defaults))
    answer = baselines.time("default", Noting(), lambda: (0, [torch.ones(2)]), 3)
    assert len(answer["samples_ms"]) == 3 and seen == {defaults} and Tf32.now() == STRICT


def test_switches_are_put_back_after_a_failure() -> None:
    arithmetic = Arithmetic(main=Tf32(convolutions=True))
    seen: list[Tf32] = []

    def fail() -> None:
        with arithmetic.switched(STRICT):
            seen.append(Tf32.now())
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert [*seen, Tf32.now()] == [STRICT, arithmetic.main]


@pytest.mark.parametrize(
    ("precision", "differ", "main", "same"),
    [
        ("fp32", True, STRICT, False),
        ("fp32", False, STRICT, True),
        ("default", True, Tf32(convolutions=True), True),
        ("default", False, STRICT, True),
    ],
)
def test_the_reference_computes_as_its_policy_says(precision: str, differ: bool, main: Tf32, same: bool) -> None:
    Tf32(convolutions=True).set()  # PyTorch's defaults as they are today
    found = Arithmetic.of({"precision": precision, "defaults_differ": differ})
    assert found.main == main
    assert found.precision == precision and (found.main == found.default) == same


@pytest.mark.parametrize(
    "source", ["torch.backends.cuda.matmul.fp32_precision = 'tf32'", "torch.set_float32_matmul_precision('high')"]
)
def test_a_problem_that_sets_the_switches_does_not_change_the_policy(new_worker: NewWorker, source: str) -> None:
    """Torch refuses to read the switches after the newer way of setting them."""
    problem = TorchProblem("level1/1_999", "999_Scale", SCALE_PROBLEM + f"\n\n{source}\n").at("tiny")
    options = {"tolerances": {}, "precision": "default", "defaults_differ": True}
    with contextlib.closing(ReferenceClient(problem, new_worker(problem, "reference.worker", **options))) as client:
        assert client.arithmetic == {"precision": "default", "default_is_reference": True}
        assert client.call("time", samples=1, seed=0, graph=False)["samples_ms"]
        assert client.baseline_timer("default", itertools.count(), False)(2)["samples_ms"]
