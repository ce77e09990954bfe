"""Each cause of lost time, by metrics that show it and by metrics that do not."""

from __future__ import annotations

from typing import Any

import pytest
from kernelwright.core import Ceilings, DeviceKernel, DeviceLimits, KernelProfile, Profile
from kernelwright.core.causes.bottleneck import Bottleneck, find_bottleneck
from kernelwright.core.compiled_code import CompiledCode
from kernelwright.core.retrieval import BOTTLENECKS

LIMITS = DeviceLimits(architecture="sm_90", multiprocessors=132, shared_bytes=232_448, registers=65_536, threads=2048)
GPU = Profile(
    flops=1e8,
    matrix_flops=0,
    min_bytes=4e8,
    eager_bytes=4e8,
    ceilings=Ceilings(copy_gb_s=4000, matrix_gflop_s=50_000, cores=132),
    limits=LIMITS,
    device="a GPU",
)
"""Its floor is a tenth of a millisecond, for memory."""
GEMM = GPU.model_copy(update={"min_bytes": 4e7, "eager_bytes": 4e7, "flops": 5e9, "matrix_flops": 5e9})
"""Its floor is a tenth of a millisecond, for matrix products."""
CPU = GPU.model_copy(
    update={
        "limits": None, "min_bytes": 1e6, "eager_bytes": 1e6,
        "ceilings": Ceilings(copy_gb_s=10, matrix_gflop_s=100, cores=4),
    }
)  # fmt: skip


def kernel(time_ms: float, **known: Any) -> DeviceKernel:
    full = {"name": "ours", "launches": 1, "own": True, "registers": 32, "threads": 128, "blocks": 132 * 16 * 20}
    kept = {"occupancy": 1.0, "limited_by": "threads", "resident_blocks": 16, "shared_bytes": 0, "spills": 0}
    return DeviceKernel(**{**full, **kept, "time_ms": time_ms, **known})


def found(latency_ms: float, *kernels: DeviceKernel, profile: Profile = GPU, **counters: float) -> Bottleneck:
    return find_bottleneck(profile, latency_ms, KernelProfile(kernels=kernels, counters=counters))


def is_evidence(bottleneck: Bottleneck, part: str) -> bool:
    return any(part in line for line in bottleneck.evidence)


def test_at_the_bandwidth_of_a_copy_it_is_memory() -> None:
    near = found(0.11, kernel(0.108))
    assert (near.name, near.cause) == ("memory", "memory bandwidth")
    assert is_evidence(
        near, "moves at least 3636 GB/s, 91% of the 4000 that a copy reaches (each of 400 MB counts once"
    )
    assert is_evidence(near, "close enough to the copy's bandwidth that only less traffic helps")
    assert is_evidence(near, "1.1 times its roofline floor of 0.100 ms")
    assert near.factors["memory"] == pytest.approx(1.1)
    assert near.factors["parallelism"] == near.factors["algorithm"] == 1


def test_below_the_bandwidth_of_a_copy_nobody_knows_whether_it_is_traffic() -> None:
    half = found(0.16, kernel(0.158))
    assert half.cause == "memory bandwidth"
    assert is_evidence(half, "the other 38% of the bandwidth goes into bytes that move more than once")
    assert not is_evidence(half, "close enough")


def test_far_above_the_floor_without_a_cause_it_says_where_none_was_found() -> None:
    far = found(0.5, kernel(0.49))
    assert (far.name, far.cause) == ("compute", "unexplained time")
    assert far.evidence[0] == (
        "no cause was found in launches; its machine code was not read: costs up to 80% of the time"
    )
    read = found(0.5, kernel(0.49, code=CompiledCode(loops=False, hot=10)))
    assert is_evidence(read, "no cause was found in launches or machine code: costs up to 80%")


def test_below_the_rate_of_matrix_products_it_is_compute() -> None:
    slow = found(0.4, kernel(0.39), profile=GEMM)
    assert (slow.name, slow.cause) == ("compute", "matrix rate")
    assert is_evidence(slow, "computes 12500 GFLOP/s in matrix products, 25% of the 50000 that fp32 products allow")
    assert slow.factors == pytest.approx({"memory": 2, "compute": 4, "parallelism": 1, "algorithm": 1})


def test_a_call_in_which_kernels_hardly_run_is_bound_by_launches() -> None:
    waiting = found(0.4, kernel(0.11, launches=5))
    assert (waiting.name, waiting.cause) == ("algorithm", "launches")
    assert is_evidence(waiting, "kernels run for 0.110 of 0.400 ms: the rest is launching and waiting, with 5 launches")
    assert waiting.factors["algorithm"] == pytest.approx(0.4 / 0.11)
    assert not is_evidence(found(0.12, kernel(0.11)), "launching")


def test_fewer_blocks_than_multiprocessors() -> None:
    small = found(0.5, kernel(0.49, blocks=33))
    assert (small.name, small.cause) == ("parallelism", "small grid")
    assert is_evidence(small, "ours starts 33 blocks for 132 multiprocessors: costs up to 75% of the time")
    assert small.factors["parallelism"] == pytest.approx(4)
    # Half of the time is in a kernel that fills the GPU: what is to be gained is half, too.
    half = found(0.5, kernel(0.245, blocks=33), kernel(0.245))
    assert half.factors["parallelism"] == pytest.approx(1 / (0.5 + 0.5 / 4))


@pytest.mark.parametrize(
    ("waves", "told_of", "factor"), [(1.25, True, 1.6), (1.0, False, 1.0), (1.9, False, 1.0), (20.1, False, 1.0)]
)
def test_a_last_wave_that_is_not_full(waves: float, told_of: bool, factor: float) -> None:
    tail = found(0.11, kernel(0.108, blocks=round(132 * 16 * waves)))
    assert is_evidence(tail, "its last wave is not full") is told_of
    assert tail.factors["parallelism"] == pytest.approx(factor)


def test_spills_and_few_warps_are_reported_with_their_metrics() -> None:
    bad = found(0.5, kernel(0.49, spills=128, registers=255, occupancy=0.125, limited_by="registers"))
    assert is_evidence(bad, "ours spills 128 bytes per thread at 255 registers")
    assert is_evidence(bad, "ours keeps 12% of a multiprocessor's warps, limited by 255 registers per thread")
    good = found(0.5, kernel(0.49))
    assert bad.factors["compute"] > good.factors["compute"]
    assert bad.factors["parallelism"] > good.factors["parallelism"]
    assert not is_evidence(good, "spills") and not is_evidence(good, "warps")
    shared = found(0.5, kernel(0.49, occupancy=0.0625, limited_by="shared memory", shared_bytes=200 * 1024))
    assert is_evidence(shared, "limited by 200 KiB of shared memory per block")


def test_time_in_a_librarys_kernels() -> None:
    library = kernel(0.3, own=False, name="void cublas::gemm<float,\n float>", occupancy=0.1)
    mixed = found(0.42, library, kernel(0.1))
    assert is_evidence(mixed, "75% of the time is not in its own kernels, most of it in cublas::gemm<float, float>")
    assert is_evidence(mixed, "2 kernels, whose intermediate results go through memory")
    assert not is_evidence(mixed, "warps")  # nothing is to be fixed there
    assert mixed.factors["algorithm"] == pytest.approx(2)
    alone = find_bottleneck(GPU, 0.5, KernelProfile(kernels=(library,)))
    assert is_evidence(alone, "100% of the time")


def test_operators_that_could_be_fused() -> None:
    unfused = GPU.model_copy(update={"eager_bytes": 6.4e9})
    once = find_bottleneck(unfused, 0.11, KernelProfile(kernels=(kernel(0.108),)))
    often = find_bottleneck(unfused, 0.11, KernelProfile(kernels=(kernel(0.108, launches=16),)))
    assert is_evidence(once, "the reference's operators move 16.0 times what must move when they run one by one")
    assert (once.factors["algorithm"], often.factors["algorithm"]) == pytest.approx((2, 4))
    assert (often.name, often.cause) == ("algorithm", "intermediates")


def test_what_nsight_compute_counted_is_reported() -> None:
    counters = {
        "dram_mb": 1600.0, "dram_throughput_pct": 82.4, "sm_throughput_pct": 31.0, "tensor_pipe_pct": 0.0,
        "stall_long_scoreboard_pct": 71.3, "stall_wait_pct": 12.0,
    }  # fmt: skip
    counted = found(0.5, kernel(0.49), **counters)
    assert is_evidence(counted, "1600.0 MB went through device memory, 4.0 times what must move")
    assert is_evidence(counted, "busy by Nsight Compute: device memory 82 %, multiprocessors 31 %")
    assert not is_evidence(counted, "tensor")
    assert is_evidence(found(0.5, kernel(0.49), profile=GEMM, **counters), "tensor cores 0 %")
    assert is_evidence(counted, "71 % of its warps' stalls are 'long scoreboard'")
    assert counted.factors["memory"] == pytest.approx(5**0.5 * 2)


def test_on_a_cpu_idle_cores_and_no_gpu_causes() -> None:
    ran = KernelProfile(kernels=(kernel(0.05, blocks=1), kernel(0.05, own=False)))
    idle = find_bottleneck(CPU, 0.12, ran, cores_used=1.0)
    assert (idle.name, idle.cause) == ("parallelism", "idle cores")
    assert idle.evidence[0] == "1.0 of 4 cores busy: costs up to 75% of the time"
    assert idle.factors["parallelism"] == 4
    assert not is_evidence(idle, "blocks") and not is_evidence(idle, "own kernels")
    busy = find_bottleneck(CPU, 0.12, None, cores_used=4.0, defined=3)
    assert (busy.name, busy.cause) == ("memory", "memory bandwidth")
    assert is_evidence(busy, "3 kernels, whose intermediate results go through memory")


def test_the_costliest_cause_comes_first_and_remarks_last() -> None:
    several = found(0.5, kernel(0.49, blocks=33, occupancy=0.125, limited_by="registers"))
    costs = [int(line.rpartition("up to ")[2].partition("%")[0]) for line in several.evidence if "costs up" in line]
    assert len(costs) > 1 and costs == sorted(costs, reverse=True)
    assert "costs up to" in several.evidence[0] and "costs up to" not in several.evidence[-1]


def test_nothing_ran() -> None:
    assert found(0.5).name in BOTTLENECKS
