"""A result is timed beside torch.compile where that is asked for, and what came of it is said."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kernelwright.commands._optimize.result import compile_line
from kernelwright.core import Config, Measurement
from kernelwright.core.baselines import beside_compile
from kernelwright.evaluators.pipeline.interleaved_timer import InterleavedTimer
from kernelwright.evaluators.settings import Settings
from kernelwright.runtime.jobs import Job
from kernelwright.runtime.options.trust import Against, Baseline, Conditions, TargetOptions

from ..fakes import PROBLEM, evaluation, kernel

PLAIN = Job(kernel(1.0), PROBLEM, "cpu", "1_1")


@pytest.mark.parametrize(
    ("job", "asked"),
    [
        (PLAIN, False),
        (replace(PLAIN, first=True), True),
        (replace(PLAIN, conditions=Conditions.of(TargetOptions(baseline=(Baseline.COMPILE,)))), True),
        (replace(PLAIN, conditions=Conditions.of(TargetOptions(baseline=(Baseline.MAX_AUTOTUNE,)))), False),
        (replace(PLAIN, conditions=Conditions.of(TargetOptions(against=Against.COMPILE))), True),
    ],
)
def test_it_is_timed_on_request_and_for_a_first_kernel(job: Job, asked: bool) -> None:
    assert job.beside_compile is asked


@pytest.mark.parametrize(
    ("compiled_ms", "stands", "said"),
    [
        (None, "not compiled", "torch.compile does not compile the reference"),
        (8.0, "faster", "[green]2.00 times as fast as torch.compile[/]"),
        (4.0, "as fast", "as fast as torch.compile (1.00x)"),
        (2.0, "slower", "[yellow]slower than torch.compile (0.50x)[/], which serves better here"),
    ],
)
def test_what_came_of_it_is_said(compiled_ms: float | None, stands: str, said: str) -> None:
    best = evaluation(kernel(4.0), Config(), 4.0)
    if compiled_ms is not None:
        best = best.model_copy(update={"baselines": {"compile": Measurement(samples_ms=(compiled_ms,) * 3)}})
    assert beside_compile(best.metrics().interval_compile) == stands
    result: Any = SimpleNamespace(outcome=SimpleNamespace(best=best), beside_compile=stands)
    assert (compile_line(result) or "").startswith(said)


def test_without_a_request_nothing_is_said() -> None:
    result: Any = SimpleNamespace(outcome=SimpleNamespace(best=evaluation(kernel(4.0), Config(), 4.0)))
    result.beside_compile = None
    assert compile_line(result) is None


@pytest.mark.parametrize(("fresh", "timed"), [((), []), (("compile",), ["compile"])])
def test_a_last_check_times_it_anew_though_its_time_is_known(
    fresh: tuple[str, ...], timed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InterleavedTimer, "_known", lambda *_: object())
    processes: Any = SimpleNamespace()
    timer = InterleavedTimer("cpu", Settings(baselines=("compile",), fresh_baselines=fresh), processes, None)
    client: Any = SimpleNamespace(arithmetic={"default_is_reference": True}, call=lambda *_, **__: {"error": None})
    assert timer._fresh_baselines(client) == timed


@pytest.mark.parametrize(("device", "ahead"), [("cuda", ["compile"]), ("cpu", [])])
def test_on_a_gpu_it_is_compiled_before_the_device_is_locked(
    device: str, ahead: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InterleavedTimer, "_known", lambda timer, client, name: None if name == "compile" else object())
    settings = Settings(baselines=("compile", "max-autotune"))
    asked: list[tuple[str, str]] = []
    client: Any = SimpleNamespace(call=lambda op, name, cache: asked.append((op, name)))
    InterleavedTimer(device, settings, cast(Any, None), None).compile_ahead(client)
    assert asked == [("compile_ahead", name) for name in ahead]
