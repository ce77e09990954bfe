"""Sweeps with an evaluator whose times are made up: what is tuned, resumed, warned of and kept."""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import (
    Budget,
    Ceilings,
    Config,
    Correctness,
    Evaluation,
    Kernel,
    KernelwrightError,
    Measurement,
    OptionError,
    Origin,
    Problem,
    ProblemError,
    Profile,
    Status,
    TorchProblem,
    Value,
)
from kernelwright.core.events import Event, Note, PartDone, TrialDone
from kernelwright.corpus import find_kernel, find_problem
from kernelwright.tuners.gemm.device import H200_LIMITS
from kernelwright.tuners.gemm.ledger import ALIKE
from kernelwright.tuners.gemm.result import CHECKED, MEASURED, PINNED, ShapeResult
from kernelwright.tuners.gemm.shapes import Shape
from kernelwright.tuners.gemm.sweep import Sweep, order
from kernelwright.tuners.gemm.task import Task

PROBLEM = find_problem("gemm/gemm").read()
KERNEL = find_kernel("gemm/gemm", "triton").read()
PROFILE = Profile(
    flops=1e9,
    matrix_flops=1e9,
    min_bytes=1e6,
    eager_bytes=1e6,
    ceilings=Ceilings(copy_gb_s=4000, matrix_gflop_s=50000, half_gflop_s=600000, cores=132),
    limits=H200_LIMITS,
    device="NVIDIA H200",
)
SHAPES = [Shape(1024, 1024, m) for m in (16, 64, 1024)]


class MadeUp:
    """The farther from a goal, which grows with M, the slower."""

    def __init__(self, broken: int = 0, wrong: bool = False) -> None:
        self.broken, self.wrong, self.asked = broken, wrong, list[tuple[int, Config]]()

    def time(self, config: Config, m: int) -> float:
        goals = {"BLOCK_SIZE_M": min(128, max(16, m)), "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128, "NUM_STAGES": 4}
        away = sum(abs(math.log2(float(config[name]) / goal)) for name, goal in goals.items())
        away += 0.1 * math.log2(float(config["GROUP_SIZE_M"])) + 0.01 * float(config["NUM_WARPS"])
        return m / 1024 * (1 + 0.2 * away + 0.1 * (config["VARIANT"] != "tma") + 0.3 * (config["SPLIT_K"] != 1))

    def one(self, problem: Problem, kernel: Kernel, config: Config) -> Evaluation:
        m = int(problem.sizes["M"])
        if m == self.broken:
            raise ProblemError("the reference needs more memory than there is")
        common: dict[str, Any] = {"kernel_digest": kernel.digest, "config": dict(config), "origin": Origin.SIMULATED}
        if self.wrong:
            return Evaluation(status=Status.WRONG_VALUE, message="far off", **common)
        bound = Config({**{name: kernel.config[name] for name in KERNEL.declared_values}, **config})
        return Evaluation(
            status=Status.OK,
            correctness=Correctness(seeds=(1,), max_abs_error=0, max_rel_error=1e-3, tolerance=1e-2, passed=True),
            measurement=Measurement(samples_ms=(self.time(bound, m),) * 3),
            reference=Measurement(samples_ms=(m / 1000,) * 3),
            environment={"device": "NVIDIA H200", "triton": "3.6.0"},
            **common,
        )

    def evaluate(
        self, problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
    ) -> Generator[Evaluation]:
        for config in configs:
            self.asked.append((int(problem.sizes["M"]), config))
            yield self.one(problem, kernel, config)

    def compare(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
        return [self.one(problem, kernel, config) for config in configs]

    def profile(self, problem: Problem) -> Profile:
        if int(problem.sizes["M"]) == self.broken:
            raise ProblemError("the reference needs more memory than there is")
        return PROFILE


class Log:
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.ended: list[ShapeResult] = []
        self.trials = 0

    def __call__(self, event: Event) -> None:
        match event:
            case Note():
                self.notes.append(event.text)
            case TrialDone():
                self.trials += 1
            case PartDone(result=ShapeResult() as result):
                self.ended.append(result)


def at(shape: Shape) -> TorchProblem:
    return PROBLEM.resized(str(shape), {"M": shape.m, "N": shape.n, "K": shape.k})


def task(**changes: Any) -> Task:
    defaults: dict[str, Any] = {"tuner": "hill_climb", "budget": Budget(trials=15)}
    return Task(KERNEL, at, H200_LIMITS, "float16", 2, **{**defaults, **changes})


def test_an_entry_that_does_not_beat_the_engines_default_pins_it(tmp_path: Path) -> None:
    """Both are timed in the same run; the default need not be in the space."""
    (tuned,) = Sweep(task(), [MadeUp()], tmp_path / "none", Log()).run(SHAPES[:1])
    assert tuned.config is not None and tuned.default_ms is None
    best = Config({**tuned.config, "GROUP_SIZE_M": 1, "NUM_WARPS": 1})
    slow = Config({**tuned.config, "BLOCK_SIZE_N": 16, "NUM_STAGES": 1})
    for default, chosen in ((best, PINNED), (slow, MEASURED)):
        (found,) = Sweep(task(default=default), [MadeUp()], tmp_path / chosen[:5], Log()).run(SHAPES[:1])
        assert found.chosen == chosen and (found.config == default) == (chosen == PINNED)
        assert found.time_ms is not None and found.default_ms is not None and found.time_ms <= found.default_ms
        assert ShapeResult.of_json(found.to_json()).default_ms == found.default_ms


def test_the_figures_of_a_shape_are_those_of_its_finals(tmp_path: Path) -> None:
    """The comparison with the default is another run, on a machine that is slower meanwhile: its ratio counts."""

    class Slower(MadeUp):
        def compare(self, problem: Problem, kernel: Kernel, configs: Sequence[Config]) -> list[Evaluation]:
            found = super().compare(problem, kernel, configs)
            if default not in configs:
                return found
            times = [Measurement(samples_ms=(1.5 * (item.latency_ms or 0.0),) * 3) for item in found]
            return [item.model_copy(update={"measurement": time}) for item, time in zip(found, times, strict=True)]

    (alone,) = Sweep(task(), [MadeUp()], tmp_path / "alone", Log()).run(SHAPES[:1])
    assert alone.config is not None and alone.time_ms is not None
    for changes, chosen in (({"BLOCK_SIZE_N": 16, "NUM_STAGES": 1}, MEASURED), ({"NUM_WARPS": 1}, PINNED)):
        default = Config({**alone.config, "GROUP_SIZE_M": 1, **changes})
        (found,) = Sweep(task(default=default), [Slower()], tmp_path / chosen[:5], Log()).run(SHAPES[:1])
        ratio = MadeUp().time(default, 16) / MadeUp().time(alone.config, 16)
        assert (found.chosen, found.analytic_ms) == (chosen, alone.analytic_ms)
        assert found.default_ms == pytest.approx(alone.time_ms * ratio)
        assert found.time_ms == (found.default_ms if chosen == PINNED else alone.time_ms)
        (kernel,) = (tmp_path / chosen[:5]).rglob("kernel.py")
        assert f"BLOCK_SIZE_N = {(found.config or {})['BLOCK_SIZE_N']}\n" in kernel.read_text()
        assert f"NUM_WARPS = {(found.config or {})['NUM_WARPS']}\n" in kernel.read_text()


def test_every_shape_gets_its_best_config_and_the_gain_over_the_analytic_choice(tmp_path: Path) -> None:
    evaluator, log = MadeUp(), Log()
    results = Sweep(task(), [evaluator], tmp_path, log).run(SHAPES)
    assert [result.shape for result in results] == SHAPES
    for result in results:
        assert result.config is not None and result.time_ms is not None and result.gain is not None
        assert result.time_ms == pytest.approx(min(evaluator.time(config, result.shape.m) for config in result.times))
        assert result.gain > 1 and result.chosen == MEASURED and result.trials == 15
        assert result.reference_ms == pytest.approx(result.shape.m / 1000)
        assert result.teraflops(result.time_ms) == pytest.approx(result.shape.flops / result.time_ms / 1e9)
    document = json.loads((tmp_path / "sweep.json").read_text())
    assert [ShapeResult.of_json(entry) for entry in document["shapes"]] == [
        ShapeResult(**{**vars(result), "times": {}}) for result in results
    ]


def kind(config: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in config.items() if name not in ALIKE}


def test_a_search_begins_with_what_the_neighbour_found(tmp_path: Path) -> None:
    evaluator = MadeUp()
    Sweep(task(budget=Budget(trials=40)), [evaluator], tmp_path, Log()).run([SHAPES[1]])
    (first,) = json.loads((tmp_path / "sweep.json").read_text())["shapes"]
    again = MadeUp()
    Sweep(task(budget=Budget(trials=40)), [again], tmp_path / "both", Log()).run([SHAPES[1], Shape(1024, 1024, 80)])
    began = [config for m, config in again.asked if m == 80][:5]
    # This evaluator's times do not depend on what one config of each kind is taken of.
    assert kind(first["config"]) in map(kind, began)


def test_results_of_other_runs_of_the_same_sweep_stay(tmp_path: Path) -> None:
    first, second = Sweep(task(), [MadeUp()], tmp_path, Log()), Sweep(task(), [MadeUp()], tmp_path, Log())
    for sweep, shapes in ((first, SHAPES[:1]), (second, SHAPES[1:2]), (first, SHAPES[2:3])):
        sweep.run(shapes)
    assert len(json.loads((tmp_path / "sweep.json").read_text())["shapes"]) == 3
    Sweep(task(tuner="random"), [MadeUp()], tmp_path, Log()).run(SHAPES[:1])
    assert len(json.loads((tmp_path / "sweep.json").read_text())["shapes"]) == 1


def test_resuming_measures_nothing_twice(tmp_path: Path) -> None:
    Sweep(task(), [MadeUp()], tmp_path, Log()).run(SHAPES[:2])
    again = MadeUp()
    results = Sweep(task(), [again], tmp_path, Log(), resume=True).run(SHAPES)
    assert {m for m, _ in again.asked} == {1024}
    assert len(results) == 3 and all(result.times for result in results)
    more = MadeUp()
    Sweep(task(budget=Budget(trials=20)), [more], tmp_path, Log(), resume=True).run(SHAPES)
    assert len(more.asked) == 3 * 5
    Sweep(task(), [more], tmp_path, Log(), resume=True).run(SHAPES[:1])
    assert len(json.loads((tmp_path / "sweep.json").read_text())["shapes"]) == 3
    with pytest.raises(OptionError, match="atol differ"):
        Sweep(task(tolerances={"atol": 0.1}), [more], tmp_path, Log(), resume=True).run(SHAPES)
    with pytest.raises(OptionError, match="tuner differ"):
        Sweep(task(tuner="random"), [more], tmp_path, Log(), resume=True).run(SHAPES)


def test_a_shape_that_fails_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    results = Sweep(task(), [MadeUp(broken=64)], tmp_path, Log()).run(SHAPES)
    assert [result.config is None for result in results] == [False, True, False]
    assert "more memory" in results[1].error
    again = MadeUp()
    Sweep(task(), [again], tmp_path, Log(), resume=True).run(SHAPES)
    assert {m for m, _ in again.asked} == {64}


def test_no_correct_config_is_no_choice(tmp_path: Path) -> None:
    (result,) = Sweep(task(), [MadeUp(wrong=True)], tmp_path, Log()).run(SHAPES[:1])
    assert result.config is None and result.entry is None
    assert result.error == "none of 15 configs is correct, first wrong_value: far off"


def test_where_nothing_can_be_timed_the_analytic_choice_is_checked(tmp_path: Path) -> None:
    evaluator = MadeUp()
    results = Sweep(task(timed=False), [evaluator], tmp_path, Log()).run(SHAPES)
    assert len(evaluator.asked) == len(SHAPES)
    assert all(result.chosen == CHECKED and result.time_ms is None and result.entry for result in results)


def test_a_sample_says_beforehand_what_tuning_gains(tmp_path: Path) -> None:
    shapes = [Shape(n, 512, m) for n in (512, 1024) for m in (16, 32, 64, 128)]
    log = Log()
    Sweep(task(budget=Budget(trials=4)), [MadeUp()], tmp_path, log).run(shapes)
    assert [result.shape for result in log.ended[:3]] == order(shapes)[:3]
    (note,) = log.notes
    assert note.startswith("on a sample of 3 shapes the best config is")
    assert len({result.shape for result in log.ended}) == 8


def test_several_devices_share_the_shapes(tmp_path: Path) -> None:
    first, second = MadeUp(), MadeUp()
    results = Sweep(task(), [first, second], tmp_path, Log()).run([Shape(512, 512, m) for m in (16, 32, 64, 128)])
    assert len(results) == 4
    assert len(first.asked) + len(second.asked) == 4 * 15


def test_an_interruption_ends_all_devices_and_keeps_what_is_there(tmp_path: Path) -> None:
    class Interrupted(MadeUp):
        def evaluate(
            self, problem: Problem, kernel: Kernel, configs: Iterable[Config], known: Sequence[Evaluation] = ()
        ) -> Generator[Evaluation]:
            if problem.sizes["M"] == 64:
                raise KeyboardInterrupt
            return super().evaluate(problem, kernel, configs, known)

    sweep = Sweep(task(), [Interrupted()], tmp_path, Log())
    with pytest.raises(KeyboardInterrupt):
        sweep.run(SHAPES)
    assert [result.shape.m for result in sweep.results] == [16]


def test_winners_are_measured_at_the_shapes_that_lack_them(tmp_path: Path) -> None:
    sweep = Sweep(task(), [MadeUp()], tmp_path, Log())
    winners = [result.config for result in sweep.run(SHAPES) if result.config is not None]
    results = sweep.measure(winners)
    fitting = [config for config in winners if int(config["BLOCK_SIZE_M"]) <= 16]
    assert fitting and all(config in result.times for result in results for config in fitting)
    assert issubclass(ProblemError, KernelwrightError)
