"""Backends of torch's attention by their names, and cuDNN's beside schedules."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from kernelwright.core import Evaluation, Measurement, Origin, ProblemError, Status
from kernelwright.core.events import Event, Note
from kernelwright.corpus import find_problem
from kernelwright.runtime.attention import ScheduleOptimizer, _beside_cudnn
from kernelwright.runtime.attention_result import ScheduleResult
from kernelwright.runtime.options.attention import AttentionConfig
from kernelwright.tuners.schedule.sdpa import SdpaBackend, problem_by
from torch.nn import attention, functional
from torch.nn.attention.bias import CausalBias


def loaded(source: str, **sizes: int) -> dict[str, Any]:
    found: dict[str, Any] = {"__name__": "loaded"}
    exec(compile(source, "loaded", "exec"), found)
    found.update({"heads": 4, "kv_heads": 2, "seq_len_q": 40, "seq_len_k": 40, **sizes})
    return found


@pytest.mark.parametrize("backend", list(SdpaBackend))
@pytest.mark.parametrize("causal", [False, True])
def test_on_a_cpu_it_computes_the_same(causal: bool, backend: SdpaBackend) -> None:
    problem = find_problem("attention").read()
    named, plain = loaded(problem_by(backend, problem).source), loaded(problem.source)
    inputs = [value.float() for value in named["get_inputs"]()]
    assert torch.allclose(named["Model"](causal)(*inputs), plain["Model"](causal)(*inputs), atol=1e-5)


@pytest.mark.parametrize("backend", list(SdpaBackend))
@pytest.mark.parametrize("queries", [1, 3])
def test_the_newest_positions_see_the_same_keys(queries: int, backend: SdpaBackend) -> None:
    problem = find_problem("decoding").read()
    sizes = {"batch_size": 1, "seq_len_q": queries}
    named, plain = loaded(problem_by(backend, problem).source, **sizes), loaded(problem.source, **sizes)
    inputs = [value.float() for value in named["get_inputs"]()]
    assert torch.allclose(named["Model"]()(*inputs), plain["Model"]()(*inputs), atol=1e-5)


@pytest.mark.parametrize("backend", list(SdpaBackend))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_on_a_gpu_the_backend_is_named(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, backend: SdpaBackend
) -> None:
    """In fp32, too: torch refuses what a backend does not take, and no other one stands in for it."""
    asked: list[Any] = []

    @contextlib.contextmanager
    def named(backends: list[Any]) -> Iterator[None]:
        asked.append(backends)
        yield

    monkeypatch.setattr(attention, "sdpa_kernel", named)
    monkeypatch.setattr(functional, "scaled_dot_product_attention", lambda *_, **given: given)
    value = SimpleNamespace(is_cuda=True, dtype=dtype, shape=(1, 8, 4, 64))
    given = loaded(problem_by(backend, find_problem("attention").read()).source)["Model"](True)(value, value, value)
    assert asked == [[getattr(attention.SDPBackend, f"{backend.name}_ATTENTION")]]
    assert given == {"is_causal": True, "enable_gqa": False}


def test_flash_attention_gets_no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functional, "scaled_dot_product_attention", lambda *_, **given: given["attn_mask"])
    value = torch.zeros(1, 4, 3, 16)
    masks = [
        loaded(problem_by(backend, find_problem("decoding").read()).source)["Model"]()(value, value, value)
        for backend in (SdpaBackend.FLASH, SdpaBackend.CUDNN)
    ]
    assert [isinstance(mask, CausalBias) for mask in masks] == [True, False]


def job() -> Any:
    optimizer = ScheduleOptimizer(AttentionConfig(simulate=True))
    return optimizer.job(optimizer.config)[0]


def timed(problem_ms: float, ours_ms: float) -> Evaluation:
    return Evaluation(
        status=Status.OK, kernel_digest="k", config={}, origin=Origin.SIMULATED,
        correctness={"seeds": (1,), "max_abs_error": 0, "max_rel_error": 0, "tolerance": 1, "passed": True},
        measurement=Measurement(samples_ms=(ours_ms,) * 3), reference=Measurement(samples_ms=(problem_ms,) * 3),
    )  # fmt: skip


def test_the_ratio_is_that_of_one_comparison() -> None:
    asked: list[Any] = []

    class Comparing:
        def compare(self, problem: Any, kernel: Any, configs: Any) -> list[Evaluation]:
            asked.append(problem.source)
            return [timed(0.3, 0.2)]

    evaluator: Any = Comparing()
    beside = _beside_cudnn(evaluator, job(), timed(1, 1), lambda _: None)
    parts: Any = SimpleNamespace()
    assert ScheduleResult(parts, parts, parts, parts, beside).times_cudnn == pytest.approx(1.5)
    assert "CUDNN_ATTENTION" in asked[0]
    assert ScheduleResult(parts, parts, parts, parts).times_cudnn is None


def test_what_cudnn_refuses_is_said() -> None:
    class Refusing:
        def compare(self, *_: Any) -> list[Evaluation]:
            raise ProblemError("the reference fails: No available kernel")

    events: list[Event] = []
    evaluator: Any = Refusing()
    assert _beside_cudnn(evaluator, job(), timed(1, 1), events.append) is None
    (note,) = events
    assert isinstance(note, Note) and "not compared with SDPA's cuDNN backend: the reference fails" in note.text


@pytest.mark.gpu
def test_a_search_is_compared_with_cudnn(tmp_path: Path) -> None:
    config = AttentionConfig(num_heads=32, seq_len_q=2048, head_dim=128, trials=2, results=tmp_path)
    result = ScheduleOptimizer(config).optimize()
    assert result.best is not None and result.times_cudnn is not None and 0.1 < result.times_cudnn < 10
    assert result.summary()["times_cudnn"] == result.times_cudnn
