"""Rates are found again from times that other rates gave."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelwright import AttentionConfig, ScheduleOptimizer
from kernelwright.core import Config, Evaluation, OptionError, Origin
from kernelwright.evaluators.loop_simulator import SimulatedLoop
from kernelwright.evaluators.simulated import simulated_ms
from kernelwright.tuners.schedule.attention import Rates
from kernelwright.tuners.schedule.fitting import fit_rates, read_rates, write_rates

from ..fakes import evaluation, kernel


def measured(tmp_path: Path) -> tuple[ScheduleOptimizer, list[Evaluation]]:
    """Schedules as a device of other rates would time them."""
    write_rates(tmp_path / "device.json", Rates(special=8.0, copy_bytes=24.0), 0.0, 0, "made up")
    config = AttentionConfig(
        simulate=True, trials=12, tuner="random", results=tmp_path, seq_len_q=700, rates=tmp_path / "device.json"
    )
    found = ScheduleOptimizer(config).optimize().found.evaluations
    return ScheduleOptimizer(AttentionConfig(seq_len_q=700)), [
        evaluation.model_copy(update={"origin": Origin.MEASURED}) for evaluation in found
    ]


def simulated(optimizer: ScheduleOptimizer, config: Config) -> float:
    """At the rates of the documents, whatever rates are tried."""
    loop = optimizer.loop(config)
    assert isinstance(loop, SimulatedLoop)
    return simulated_ms(loop)


def test_a_fit_explains_what_was_measured(tmp_path: Path) -> None:
    optimizer, trials = measured(tmp_path)
    rates, error = optimizer.fit(trials)
    _, before = fit_rates(trials, lambda _, config: simulated(optimizer, config), Rates())
    assert error < before / 2 and error < 0.15
    assert rates.special < 13 and rates.multiprocessors == 132
    with pytest.raises(OptionError, match="3 measured schedules are too few to fit rates to; measure 8 or more"):
        optimizer.fit([evaluation for evaluation in trials if evaluation.ok][:3])


def test_of_many_schedules_some_are_taken() -> None:
    many = [evaluation(kernel(1.0), Config({"N": i}), 1.0 + i) for i in range(100)]
    asked: set[Config] = set()
    fit_rates(
        [evaluation.model_copy(update={"origin": Origin.MEASURED}) for evaluation in many],
        lambda _, config: asked.add(config),
        Rates(),
    )
    assert len(asked) == 16 and {config["N"] for config in asked} >= {0, 99}


def test_files_that_are_no_rates(tmp_path: Path) -> None:
    write_rates(tmp_path / "rates.json", Rates(vector=99.0), 0.1, 20, "NVIDIA H200")
    assert read_rates(tmp_path / "rates.json") == Rates(vector=99.0)
    (tmp_path / "other.json").write_text('{"rates": {"vector": -1}}')
    for name, said in (("other.json", "holds no fitted `rates`: .* is missing"), ("nothing.json", "cannot read .*")):
        with pytest.raises(OptionError, match=rf"{said}; give the rates\.json"):
            read_rates(tmp_path / name)
