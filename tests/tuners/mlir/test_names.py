from __future__ import annotations

import itertools
from pathlib import Path

from kernelwright.core import Target
from kernelwright.tuners.mlir.analysis import analyse
from kernelwright.tuners.mlir.machine import ScheduleTarget
from kernelwright.tuners.mlir.names import config_name, operation_name, path_of
from kernelwright.tuners.mlir.space import schedules

from .modules import FOUR, MAPS, SEED, matmul, module

CUDA = ScheduleTarget(Target.CUDA)


def test_files_have_the_seeds_names() -> None:
    (schedule,) = schedules(analyse(matmul(512, 512, 512), "m").operations, CUDA)
    config = {"tile_m": 64, "tile_n": 64, "tile_k": 128, "block_dim_x": 64, "block_dim_y": 2, "block_dim_z": 1,
              "thread_n": 8, "shared": 1, "padded": 1, "pipeline_depth": 2}  # fmt: skip
    path = path_of(Path("generated"), schedule, config)
    assert path == Path(
        "generated/linalg/matmul/matmul_512x512x512_f32t_f32t_f32t/"
        "tilesize_64x64x128_interchange_0x1x2_vectorsize_4x8_2_64x2x1_simt.mlir"
    )
    assert config_name(schedule, {**config, "shared": 0, "padded": 0}).endswith("_simt_direct_unpadded")


def test_tensor_cores_have_the_seeds_name() -> None:
    (schedule,) = schedules(analyse(matmul(512, 512, 512, "f16"), "m").operations, CUDA)
    assert config_name(schedule, schedule.first[0]) == (
        "tilesize_128x128x32_interchange_0x1x2_vectorsize_16x8_2_64x2x1_tensorcore_mmasync"
    )


def test_no_two_configs_of_a_space_have_one_name() -> None:
    for machine in (CUDA, ScheduleTarget(Target.CPU, 2, 64)):
        for schedule in schedules(analyse(FOUR, "four").operations, machine):
            configs = list(itertools.islice(schedule.space, 300))
            assert len({config_name(schedule, config) for config in configs}) == len(configs)
    (schedule,) = schedules(analyse(SEED, "seed").operations, CUDA)
    assert operation_name(schedule.operation) == "matmul_1024x512x256_f32t_f32t_f32t"


def test_operands_by_columns_have_an_n() -> None:
    operation = "linalg.matmul " + MAPS.format("m, n, k", "k, m", "n, k", "m, n")
    problem = analyse(module(operation, "8x4xf32", "6x8xf32", "4x6xf32"), "transposed")
    assert operation_name(problem.operations[0]) == "matmul_4x6x8_f32n_f32n_f32t"
