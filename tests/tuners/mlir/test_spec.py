from __future__ import annotations

from pathlib import Path

from kernelwright.core import Slot, Target
from kernelwright.tuners.mlir.analysis import analyse
from kernelwright.tuners.mlir.machine import ScheduleTarget
from kernelwright.tuners.mlir.space import schedules
from kernelwright.tuners.mlir.spec import tuning_spec

from .compiled import chosen_configs, lowering_config
from .modules import FOUR, convolution

CPU = ScheduleTarget(Target.CPU, workers=2, vector_bytes=64)


def test_a_spec_schedules_the_unedited_module(tmp_path: Path) -> None:
    problem = analyse(FOUR, "four")
    infos = {
        schedule.operation.name: Slot(schedule.info).filled(schedule.first[-1])
        for schedule in schedules(problem.operations, CPU)
    }
    spec = tuning_spec(problem, infos)
    path = tmp_path / "tuning_spec.mlir"
    path.write_text(spec.text)
    found = chosen_configs(FOUR, Target.CPU, f"--iree-codegen-tuning-spec-path={path}")
    assert sorted(found) == sorted(map(lowering_config, infos.values()))
    assert not spec.left_out
    assert sorted(chosen_configs(FOUR, Target.CPU)) != sorted(found)


def test_what_a_spec_cannot_carry_is_named() -> None:
    problem = analyse(convolution(1), "one_image")
    (schedule,) = schedules(problem.operations, CPU)
    spec = tuning_spec(problem, {"conv_2d_0": Slot(schedule.info).filled(schedule.first[0])})
    assert (spec.text, spec.left_out) == ("", ("conv_2d_0",))
