from __future__ import annotations

import random
import re

import pytest
from kernelwright.core import Slot, SpaceError, Target
from kernelwright.tuners.mlir.analysis import analyse
from kernelwright.tuners.mlir.machine import ScheduleTarget
from kernelwright.tuners.mlir.space import Schedule, schedule, schedules

from .modules import MAPS, SEED, convolution, matmul, module

CPU = ScheduleTarget(Target.CPU, workers=2, vector_bytes=64)
CUDA = ScheduleTarget(Target.CUDA)
SIZES = [(1024, 512, 256), (128, 128, 128), (1, 4096, 4096), (4096, 1, 512), (7, 13, 11), (1000, 96, 100)]


def of(text: str, machine: ScheduleTarget, ranges: dict[str, tuple[int, ...]] | None = None) -> Schedule:
    return schedule(analyse(text, "one").operations[0], machine, ranges)


def lists(schedule: Schedule, config: dict[str, int]) -> dict[str, list[int]]:
    """The lists of a bound schedule by their names."""
    text = Slot(schedule.info).filled(config)
    return {name: [int(v) for v in found.split(", ") if v] for name, found in re.findall(r"(\w+) = \[([^]]*)\]", text)}


@pytest.mark.parametrize("machine", [CPU, CUDA], ids=["cpu", "cuda"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_space_is_derived_for_every_shape_with_tiles_within_it(
    size: tuple[int, int, int], machine: ScheduleTarget
) -> None:
    schedule = of(matmul(*size), machine)
    space = schedule.space
    assert schedule.first and all(config in space for config in schedule.first) and space.default == schedule.first[0]
    rng = random.Random(0)
    for config in [*schedule.first, *(space.sample(rng) for _ in range(5))]:
        tile = lists(schedule, schedule.plain(config))["distribution" if machine is CPU else "workgroup"]
        assert len(tile) == 3 and tile[2] == 0
        assert all(0 < t <= extent for t, extent in zip(tile[:2], size[:2], strict=True))


def test_a_sum_in_bf16_is_unrolled_from_the_start() -> None:
    """IREE rounds it to bf16 after each part: with parts of one step it takes three times as long."""
    assert {config["vector_k"] for config in of(matmul(128, 128, 256), CPU).first} == {1}
    assert {config["vector_k"] for config in of(matmul(128, 128, 256, "bf16"), CPU).first} == {16}


def test_threads_of_a_block_share_out_just_its_tile() -> None:
    """A module with twice the threads that its tile needs compiles without a word."""
    schedule = of(SEED, CUDA)
    rng = random.Random(1)
    for config in [*schedule.first, *(schedule.space.sample(rng) for _ in range(30))]:
        plain = schedule.plain(config)
        found = lists(schedule, plain)
        tile, thread, block = found["workgroup"], found["thread"], found["workgroup_size"]
        assert (tile[0] // thread[0]) * (tile[1] // thread[1]) == block[0] * block[1] * block[2] <= 1024
        assert tile[0] % thread[0] == tile[1] % thread[1] == 0 and block[2] == 1
        assert found["promote_operands"] == ([0, 1] if plain["shared"] else [])


def test_half_precision_goes_to_the_tensor_cores_where_the_sizes_allow() -> None:
    schedule = of(matmul(256, 256, 128, "f16"), CUDA)
    for config in schedule.first:
        plain = schedule.plain(config)
        found = lists(schedule, plain)
        warps = plain["block_dim_x"] * plain["block_dim_y"] // 32
        assert found["subgroup"][0] * 16 * found["subgroup"][1] * 8 * warps == plain["tile_m"] * plain["tile_n"]
        assert found["reduction"] == [0, 0, plain["tile_k"] // 16]
        assert "NV_MMA_SYNC_F16_16x8x16_F16" in schedule.info
    assert "mma_kind" not in of(matmul(100, 100, 100, "f16"), CUDA).info


def test_sums_of_half_precision_leave_registers_for_twice_the_tile() -> None:
    wide = {"tile_m": 256, "tile_n": 128, "block_dim_x": 64, "block_dim_y": 2}
    types = "512x128xf16", "128x512xf16"
    half, single = (of(module("linalg.matmul", *types, f"512x512x{result}"), CUDA) for result in ("f16", "f32"))
    assert wide.items() <= half.first[2].items() and half.first[2] in half.space
    assert not any(wide.items() <= config.items() for config in single.space)
    assert half.values["padded"] == (0, 1) and {config["padded"] for config in half.space} == {1}


def test_sizes_that_nothing_divides_get_tiles_of_powers_of_two_too() -> None:
    schedule = of(matmul(197, 113, 131), CPU)
    assert schedule.values["tile_m"] == (16, 32, 64, 128, 197) and schedule.values["vector_m"] == (1, 2, 4, 8, 16)
    assert schedule.values["tile_n"][-1] == 113 and set(schedule.values["vector_n"]) == {16, 32, 64}
    assert {"tile_m": 64, "tile_n": 64, "vector_m": 8, "vector_n": 32}.items() <= schedule.first[0].items()


def test_what_must_be_transposed_in_registers_gets_one_register_of_columns() -> None:
    maps = MAPS.format("m, n, k", "m, k", "n, k", "m, n")
    types = "64x512xf32", "512x512xf32", "64x512xf32"
    schedule = of(module(f"linalg.matmul {maps}", *types), CPU)
    assert {"vector_m": 8, "vector_n": 16, "vector_k": 16}.items() <= schedule.first[0].items()
    assert {config["vector_n"] for config in schedule.first} == {16} and set(schedule.values["vector_n"]) == {16, 32}
    column = of(module("linalg.matvec", "512x512xf32", "512xf32", "512xf32"), CPU)
    assert {"tile_n": 64, "vector_n": 16, "vector_k": 16}.items() <= column.first[0].items()
    assert {config["vector_n"] for config in of(module("linalg.matmul", *types), CPU).first} > {16}


def test_a_matrix_by_a_vector_gets_wide_vectors() -> None:
    schedule = of(matmul(1, 4096, 4096), CPU)
    assert dict(schedule.first[0]) == {
        "tile_m": 1,
        "tile_n": 256,
        "tile_k": 4096,
        "vector_m": 1,
        "vector_n": 256,
        "vector_k": 4,
    }


def test_each_cut_of_the_depth_fits_into_what_iree_keeps_on_the_stack() -> None:
    schedule = of(matmul(512, 512, 512), CPU)
    rng = random.Random(2)
    for config in [schedule.space.sample(rng) for _ in range(60)]:
        found = lists(schedule, schedule.plain(config))
        rows, columns, _ = found["cache_parallel"]
        assert (found["cache_reduction"][2] > 0) == (rows > 0)
        assert rows * columns * 4 <= 16384


@pytest.mark.parametrize("machine", [CPU, CUDA], ids=["cpu", "cuda"])
def test_a_convolution_is_a_product_at_each_place_of_its_window(machine: ScheduleTarget) -> None:
    schedule = of(convolution(2), machine)
    found = lists(schedule, schedule.plain(schedule.first[0]))
    loops = [loop.name for loop in schedule.operation.loops]
    assert loops == ["B", "OH", "OW", "OC", "KH", "KW", "IC"]
    inner = found["vector_reduction" if machine is CPU else "reduction"]
    assert inner[:6] == [0, 0, 0, 0, 1, 1] and inner[6] >= 1


def test_ranges_of_a_user_hold_what_they_do_not_name() -> None:
    seed = {"tile_m": (64, 128), "tile_n": (32, 64), "tile_k": (32, 64, 128, 256), "block_dim_x": (64,),
            "block_dim_y": (2,), "block_dim_z": (1,), "pipeline_depth": (2,)}  # fmt: skip
    on_gpu = of(SEED, CUDA, seed)
    assert on_gpu.space.size == 15 and not on_gpu.remarks  # one needs more shared memory than there is
    on_cpu = of(SEED, CPU, seed)
    assert on_cpu.space.size == 16 and {config["vector_n"] for config in on_cpu.space} == {32}
    assert on_cpu.remarks[0] == "block_dim_x has no meaning for matmul_0 here"


def test_tiles_beyond_the_shape_are_left_out_with_a_remark() -> None:
    schedule = of(matmul(64, 64, 64), CPU, {"tile_m": (32, 128)})
    assert schedule.values["tile_m"] == (32,)
    assert schedule.remarks == ("tile_m = [128] is left out of matmul_0: the loop has 64 steps",)


def test_what_is_held_gives_way_to_ranges_that_need_it() -> None:
    schedule = of(matmul(64, 64, 64), CPU, {"tile_n": (16,)})
    assert {config["tile_n"] for config in schedule.space} == {16}


def test_ranges_without_a_config_say_which_operation() -> None:
    with pytest.raises(SpaceError, match=r"matmul_0 \(64x64x64\): no config satisfies"):
        of(matmul(64, 64, 64), CUDA, {"block_dim_x": (7,)})


def test_parameters_of_several_operations_have_their_names_before_them() -> None:
    product = module("linalg.matmul", "8x4xf32", "4x6xf32", "8x6xf32")
    more = product.replace(
        "  return",
        "  %t = tensor.empty() : tensor<8x4xf32>\n"
        "  %s = linalg.matmul ins(%r, %b2 : tensor<8x6xf32>, tensor<6x4xf32>) outs(%t : tensor<8x4xf32>)"
        " -> tensor<8x4xf32>\n  return",
    ).replace("%b: tensor<4x6xf32>", "%b: tensor<4x6xf32>, %b2: tensor<6x4xf32>")
    first, second = schedules(analyse(more, "two").operations, CPU)
    assert set(first.values) == {f"matmul_0_{name}" for name in second.plain(second.first[0])}
    assert second.space.default.keys() == second.values.keys()
    assert first.constraints[0] == "matmul_0_tile_m % matmul_0_vector_m == 0"
