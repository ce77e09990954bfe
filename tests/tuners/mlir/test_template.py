from __future__ import annotations

import pickle

import pytest
from kernelwright.core import KernelError, MlirKernel, MlirProblem, Slot, Target
from kernelwright.tuners.mlir.analysis import analyse
from kernelwright.tuners.mlir.machine import ScheduleTarget
from kernelwright.tuners.mlir.space import Schedule, schedules
from kernelwright.tuners.mlir.template import attached, kernel_of, printed

from .compiled import chosen_configs, compiled, lowering_config
from .modules import BODY, FOUR, SEED, convolution, generic, matmul, module

MACHINES = {
    Target.CPU: ScheduleTarget(Target.CPU, workers=2, vector_bytes=64),
    Target.CUDA: ScheduleTarget(Target.CUDA),
}


def made(text: str, target: Target = Target.CPU) -> tuple[MlirProblem, list[Schedule], MlirKernel]:
    problem = analyse(text, "module")
    found = schedules(problem.operations, MACHINES[target])
    return problem, found, kernel_of(problem, target, found)


def test_bound_to_nothing_it_is_the_plain_module() -> None:
    problem, _, kernel = made(SEED)
    assert kernel.source == problem.source == SEED
    bound = kernel.bind(kernel.first[0])
    assert bound.config == kernel.first[0] and bound.source != SEED
    assert kernel.bind({}).source == SEED and bound.bind({}) == bound
    assert (kernel.backend, kernel.config) == ("mlir_cpu", {})
    assert pickle.loads(pickle.dumps(bound)).digest == bound.digest != kernel.digest


def test_a_bound_module_is_what_the_bindings_attach() -> None:
    problem, (schedule,), kernel = made(SEED)
    config = kernel.first[1]
    by_bindings = attached(problem, {problem.operations[0].position: Slot(schedule.info).filled(config)})
    assert printed(kernel.bind(config).source, "bound") == by_bindings
    assert by_bindings.startswith("#config = #iree_cpu.lowering_config<")
    assert "linalg.matmul {compilation_info = #compilation}" in by_bindings


def test_operations_are_bound_one_by_one() -> None:
    _, found, kernel = made(FOUR)
    assert [schedule.operation.name for schedule in found] == ["conv_2d_0", "matmul_1", "matmul_2", "matmul_3"]
    second = kernel.bind(found[1].first[0])
    assert second.source.count("compilation_info = ") == 1
    whole = second.bind({**found[0].first[0], **found[2].first[0], **found[3].first[0]})
    assert whole.source.count("compilation_info = ") == 4
    assert whole == kernel.bind(kernel.first[0])
    printed(whole.source, "whole")
    space = kernel.space(kernel.declared_values, kernel.declared_constraints)
    assert kernel.configs_in(space)[0] == space.default == whole.config


def test_a_schedule_in_part_and_unknown_names_are_refused() -> None:
    _, _, kernel = made(SEED)
    with pytest.raises(KernelError, match="the config lacks tile_k, tile_n, vector_k, vector_m, vector_n; set all"):
        kernel.bind({"tile_m": 64})
    with pytest.raises(KernelError, match="module has no parameter BLOCK_M; it has tile_m, tile_n"):
        kernel.bind({"BLOCK_M": 64})


def test_another_target_or_other_ranges_are_another_kernel() -> None:
    problem, _, kernel = made(SEED)
    other = kernel_of(
        problem, Target.CPU, schedules(problem.operations, ScheduleTarget(Target.CPU, 2, 64), {"tile_m": (8,)})
    )
    assert made(SEED, Target.CUDA)[2].digest != kernel.digest
    assert kernel.digest == made(SEED)[2].digest
    assert other.values["tile_m"] == (8,)


KEPT = {
    "one_image": convolution(1),
    "generic_of_one_row": module(generic("m, n, k", "m, k", "n, k", "m, n"), "1x64xf32", "96x64xf32", "1x96xf32", BODY),
    "several_rows": module(
        generic("a, b, n, k", "a, b, k", "n, k", "a, b, n"), "4x8x32xf32", "48x32xf32", "4x8x48xf32", BODY
    ),
}


def test_iree_takes_every_schedule_on_the_cpu() -> None:
    """All in one module: a compilation takes a second."""
    _, found, kernel = made(FOUR)
    config = kernel.first[0]
    wanted = [lowering_config(Slot(schedule.info).filled(config)) for schedule in found]
    assert sorted(chosen_configs(kernel.bind(config).source, Target.CPU)) == sorted(wanted)


@pytest.mark.parametrize("form", KEPT)
def test_operations_that_iree_rewrites_keep_their_schedules(form: str) -> None:
    problem, (schedule,), kernel = made(KEPT[form])
    assert problem.prepared != problem.source == kernel.source
    config = kernel.first[0]
    assert chosen_configs(kernel.bind(config).source, Target.CPU) == [
        lowering_config(Slot(schedule.info).filled(config))
    ]
    inputs = problem.draw(0)
    assert problem.reference(inputs) is not None


def test_schedules_for_cuda_compile() -> None:
    _, (schedule,), kernel = made(matmul(256, 256, 128), Target.CUDA)
    config = kernel.first[0]
    source = kernel.bind(config).source
    assert chosen_configs(source, Target.CUDA) == [lowering_config(Slot(schedule.info).filled(config))]


def test_schedules_for_tensor_cores_compile_to_their_instructions() -> None:
    _, _, kernel = made(matmul(256, 256, 128, "f16"), Target.CUDA)
    assert b"mma.sync" in compiled(kernel.bind(kernel.first[0]).source, Target.CUDA)
