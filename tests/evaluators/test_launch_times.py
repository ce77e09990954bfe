"""The times of a call's launches in a search, and a search per launch from end to end, on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelwright import tune
from kernelwright.core import Config, Problem, PythonKernel
from kernelwright.core.events import Event, Note, TrialDone
from kernelwright.evaluators.candidate.launch_times import CALLS, LaunchTimes
from kernelwright.evaluators.languages.base import LanguageSupport
from kernelwright.evaluators.local import LocalEvaluator
from kernelwright.evaluators.settings import SearchSettings
from kernelwright.evaluators.timing.clock import Clock

from ..conftest import FAST, SCALE_KERNEL, SCALE_PROBLEM, Unguarded

SECOND = """
@functools.lru_cache(maxsize=None)
def build_halve(M: int, N: int):
    @T.prim_func
    def halve(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, ROWS)) as b:
            for repeat in T.serial(REPEATS):
                for i, j in T.grid(ROWS, N):
                    Y[b * ROWS + i, j] = X[b * ROWS + i, j] / 2

    return tilelang.compile(halve, out_idx=[-1], target="c", compile_flags=COMPILE_FLAGS)


class ModelNew"""
TWO_LAUNCHES = (
    SCALE_KERNEL.replace("* W[j]", "* W[j] * 2")
    .replace("class ModelNew", SECOND)
    .replace("return build(*x.shape)(x, self.weight)", "return build_halve(*x.shape)(build(*x.shape)(x, self.weight))")
    .replace("BLOCK = 8", "BLOCK = 8\nROWS = 8\nREPEATS = 1")
    .replace('"BLOCK": [4, 8, 16]', '"BLOCK": [4, 8, 16], "ROWS": [4, 8], "REPEATS": [1, 4000]')
)
SEARCHING = replace(FAST, search=SearchSettings(sampling=FAST.sampling.quick()))


@pytest.fixture(scope="module")
def searching() -> Iterator[LocalEvaluator]:
    with Unguarded(settings=SEARCHING) as shared:
        yield shared


def test_each_launch_has_its_time(searching: LocalEvaluator, scale_problem: Problem) -> None:
    kernel = PythonKernel.parse(TWO_LAUNCHES)
    short, long = searching.evaluate(scale_problem, kernel, [Config({"REPEATS": n}) for n in (1, 4000)])
    for evaluation in (short, long):
        assert evaluation.ok and set(evaluation.launches_ms) == {"scale", "halve"}, evaluation.message
    assert long.launches_ms["halve"] > 10 * short.launches_ms["halve"]
    assert long.launches_ms["scale"] < long.launches_ms["halve"] / 4


def test_a_file_with_one_kernel_is_not_called_again(searching: LocalEvaluator, scale_problem: Problem) -> None:
    (found,) = searching.evaluate(scale_problem, PythonKernel.parse(SCALE_KERNEL), [Config({"BLOCK": 4})])
    assert found.ok and not found.launches_ms and "launches" not in found.stages
    assert "launches_ms" not in found.model_dump()


def test_a_file_is_tuned_by_the_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "level1").mkdir()
    (tmp_path / "level1" / "999_Scale.py").write_text(SCALE_PROBLEM)
    (tmp_path / "two.py").write_text(TWO_LAUNCHES.replace("REPEATS = 1", "REPEATS = 4000"))
    heard: list[Event] = []
    options: dict[str, Any] = {"problem": "level1/999_Scale.py", "device": "cpu", "sandbox": "none", "workload": "cpu"}
    result = tune("two.py", tuner="hill_climb", trials=6, on_event=heard.append, **options)
    notes = [event.text for event in heard if isinstance(event, Note)]
    assert "searched per launch: scale (1 parameter), halve (2)" in notes
    assert result.found.best is not None and result.found.best.config["REPEATS"] == 1
    trials = [event.evaluation for event in heard if isinstance(event, TrialDone)]
    assert len(trials) == 6 and all(item.launches_ms for item in trials if item.ok)
    again = tune("two.py", tuner="hill_climb", trials=8, resume=True, **options)
    assert again.found.progress.recalled == 6 and again.found.progress.trials == 8


class CountedLanguage(LanguageSupport):
    """Launches are calls of `launch`."""

    def __init__(self) -> None:
        self.launch: Callable[[str, float], None] = lambda name, seconds: None

    @contextmanager
    def counting(self, counted: Any) -> Iterator[None]:
        really, self.launch = self.launch, lambda name, seconds: counted(name, really_at(self, seconds))()
        try:
            yield
        finally:
            self.launch = really


def really_at(language: CountedLanguage, seconds: float) -> Callable[[], None]:
    def spend() -> None:
        language.now += seconds  # type: ignore[attr-defined]

    return spend


class BusyGpu:
    """A GPU that works behind the host: events have the device's time."""

    flush_kernel = "flush"

    def __init__(self) -> None:
        self.flushes = 0

    def wait(self) -> None:
        pass

    def reset_persisting(self) -> None:
        pass

    def flush(self) -> None:
        self.flushes += 1


def test_launches_of_one_name_add_up_and_the_gpu_is_kept_busy_before_them() -> None:
    language, gpu = CountedLanguage(), BusyGpu()
    language.now = 0.0  # type: ignore[attr-defined]
    clock = Clock("cpu")
    clock._gpu = gpu  # type: ignore[assignment]
    times = LaunchTimes("cpu", clock, [language])
    times._on_cpu = False
    times._mark, times._elapsed_ms = lambda: language.now, lambda start, stop: stop - start  # type: ignore[attr-defined]
    flushed: list[int] = []

    def call() -> None:
        flushed.append(gpu.flushes)
        for name, spent in (("first", 1.0), ("second", 5.0), ("first", 2.0)):
            language.launch(name, spent)

    found = times.of(call)
    assert found == {"first": [3.0] * len(found["first"]), "second": [5.0] * len(found["first"])}
    assert 3 <= len(found["first"]) <= CALLS
    assert flushed[-1] > flushed[-2], "the cache is flushed before each call"
