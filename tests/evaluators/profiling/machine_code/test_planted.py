"""Kernels with a planted defect, compiled for sm_90 without a device: the table names that cause first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import KernelProfile, Profile
from kernelwright.core.causes.bottleneck import Bottleneck, find_bottleneck
from kernelwright.core.causes.observed import Observed
from kernelwright.core.causes.table import CAUSES, FoundBy
from kernelwright.evaluators.languages.base import CompiledKernel

from . import planted
from .conftest import PRODUCT, STREAM, launched, line_of, of_triton

FULL = 132 * 8 * 20
"""Blocks of 256 threads that fill an H100 many times, whose last wave does not matter."""
PYTHON = Path(planted.__file__)


def named(profile: Profile, ran: KernelProfile, latency_ms: float | None = None) -> Bottleneck:
    return find_bottleneck(profile, latency_ms or ran.time_ms / 0.98, ran)


CUDA: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "transpose_conflicts": ("bank conflicts", "32-way bank conflicts", "= tile[column][row + k]", {"time_ms": 0.3}),
    "narrow_copy": ("narrow loads", "loads 4 bytes per lane", "y[i] = x[i] * 2.0f", {"time_ms": 0.19}),
    "half_copy": ("narrow loads", "loads 2 bytes per lane", "__hmul(x[i]", {"time_ms": 0.3}),
    "column_walk": ("uncoalesced access", "32 sectors of 32 bytes per request, where 4", "sum += x[(size_t)row", {}),
    "column_store": ("uncoalesced access", "stores 4 bytes per lane, 16384 bytes apart", "y[(size_t)row * n", {}),
    "chase": ("dependent instructions", "waits most for a load from shared memory", "at = next[at]",
              {"threads": 512, "shared": 150_000, "time_ms": 0.18}),
    "double_constant": ("double precision", "computes in double precision: 4 of", "v.x * 1.7", {"time_ms": 0.15}),
    "one_counter": ("contended atomics", "updates one address from all lanes", "atomicAdd(", {"time_ms": 2.0}),
    "exponentials": ("special functions", "32 special functions among", "__sinf", {}),
    "one_load_at_a_time": ("few loads in flight", "waits for the load of line", "__ldg(x + i)",
                           {"threads": 512, "shared": 150_000, "time_ms": 0.23}),
    "first_lanes": ("idle lanes", "with 4 of a warp's 32 lanes", "* 4 + lane] =", {}),
    "index_by_division": ("address arithmetic", "on addresses, masks and constants", "i / a % b", {"time_ms": 0.14}),
    "large_tile": ("occupancy", "keeps 12% of a multiprocessor's warps, limited by 195 KiB of shared memory", "",
                   {"shared": 200_000}),
}  # fmt: skip
"""By kernel: the cause, a part of its sentence, a part of the source line that it names, and the launch."""


@pytest.mark.parametrize("name", CUDA)
def test_a_defect_of_a_cuda_kernel_is_named_first(name: str, cuda_kernels: dict[str, CompiledKernel]) -> None:
    cause, sentence, source, launch = CUDA[name]
    found = named(STREAM, launched(cuda_kernels[name], FULL, **launch))
    assert found.cause == cause, found
    assert sentence in found.evidence[0], found.evidence
    assert "costs up to" in found.evidence[0]
    if source:
        assert f"line {line_of(source)}" in found.evidence[0], found.evidence[0]


ROWS = {"x": "*fp32", "y": "*fp32", "n": "i32"}
TILES = dict.fromkeys("abc", "*fp16") | {"N": "i32", "K": "i32"}
TRITON: dict[str, tuple[Any, dict[str, str], dict[str, int], dict[str, Any], Profile, dict[str, Any]]] = {
    "register spills": (planted.spilling, {"x": "*fp32", "y": "*fp32"}, {"N": 8192}, {"maxnreg": 32}, STREAM, {}),
    "repeated reads": (planted.two_passes, ROWS, {"N": 4096}, {"num_warps": 8}, STREAM,
                       {"time_ms": 0.15}),
    "serial wgmma": (planted.chained, dict.fromkeys("qkvo", "*fp16") | {"n": "i32"}, {"BM": 64, "BN": 128, "D": 128},
                     {"num_warps": 4, "num_stages": 3}, PRODUCT, {"time_ms": 0.17}),
    "mma instead of wgmma": (planted.product, TILES,
                             {"BM": 32, "BN": 128, "BK": 64}, {"num_warps": 4}, PRODUCT, {"time_ms": 0.15}),
    "idle lanes": (planted.short_rows, ROWS, {"N": 8}, {"num_warps": 4}, STREAM, {}),
    "uncoalesced access": (planted.by_columns, ROWS, {"N": 128}, {}, STREAM, {}),
}  # fmt: skip


@pytest.mark.parametrize("cause", TRITON)
def test_a_defect_of_a_triton_kernel_is_named_first(cause: str) -> None:
    function, types, constants, options, profile, launch = TRITON[cause]
    kernel = of_triton(planted.compiled(function, types, constants, **options))
    found = named(profile, launched(kernel, FULL, **launch))
    assert found.cause == cause, found
    assert "line" in found.evidence[0] and "costs up to" in found.evidence[0], found.evidence


def test_a_product_on_the_vector_units(cuda_kernels: dict[str, CompiledKernel]) -> None:
    kernel = replace(cuda_kernels["product_on_vector_units"], tensor_cores=())
    found = named(PRODUCT, launched(kernel, FULL, time_ms=2.0))
    assert found.cause == "no tensor cores"
    assert (
        f"no matrix instruction: its products run on the vector units (line {line_of('__half2float(a')})"
        in (found.evidence[0])
    )


def test_copies_through_registers(cuda_kernels: dict[str, CompiledKernel]) -> None:
    found = named(STREAM, launched(cuda_kernels["staged_by_hand"], FULL, shared=100_000, time_ms=0.16))
    assert f"copies to shared memory through registers (line {line_of('tile[threadIdx.x] = x[')})" in found.evidence[0]


def test_launches_grids_waves_and_libraries(cuda_kernels: dict[str, CompiledKernel]) -> None:
    wide = cuda_kernels["wide_copy"]
    gaps = named(STREAM, launched(wide, FULL, time_ms=0.1, launches=10), 0.4)
    assert gaps.cause == "launches" and "with 10 launches: costs up to 75% of the time" in gaps.evidence[0]
    small = named(STREAM, launched(wide, 33))
    assert small.cause == "small grid" and "starts 33 blocks for 132 multiprocessors" in small.evidence[0]
    resident = launched(wide, FULL).kernels[0].resident_blocks or 0
    tail = named(STREAM, launched(wide, 132 * resident * 5 // 4, time_ms=0.15))
    assert tail.cause == "last wave" and "fills the GPU 1.25 times: its last wave is not full" in tail.evidence[0]
    own = launched(wide, FULL, time_ms=0.03).kernels[0]
    other = own.model_copy(update={"own": False, "name": "void cublas_gemm", "time_ms": 0.1, "code": None})
    library = named(STREAM, KernelProfile(kernels=(other, own)))
    assert library.cause == "library kernels" and "77% of the time is not in its own kernels" in library.evidence[0]
    unfused = STREAM.model_copy(update={"eager_bytes": 6.4e9})
    several = named(unfused, launched(wide, FULL, time_ms=0.12, launches=4))
    assert several.cause == "intermediates"


SOUND = ("transpose_padded", "wide_copy")


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_kernel_has_no_cause_in_its_code(name: str, cuda_kernels: dict[str, CompiledKernel]) -> None:
    ran = launched(cuda_kernels[name], FULL, time_ms=0.11)
    assert ran.kernels[0].code is not None
    seen = Observed(STREAM, 0.112, ran)
    coded = {cause.name for row in CAUSES if row.facts is FoundBy.CODE for cause in row.causes(seen)}
    # A transpose of 4-byte elements loads 4 bytes per lane, and stages them.
    assert coded <= ({"narrow loads", "copies through registers"} if name == "transpose_padded" else set())


def test_a_sound_softmax_and_product_have_no_cause_in_their_code() -> None:
    rows = of_triton(planted.compiled(planted.softmax, ROWS, {"N": 4096}, num_warps=8))
    tiles = {"BM": 128, "BN": 128, "BK": 64}
    square = of_triton(planted.compiled(planted.product, TILES, tiles, num_warps=4, num_stages=3))
    for profile, kernel in ((STREAM, rows), (PRODUCT, square)):
        seen = Observed(profile, 0.15, launched(kernel, FULL, time_ms=0.148))
        assert next(seen.codes, None) is not None
        found = [cause for row in CAUSES if row.facts is FoundBy.CODE for cause in row.causes(seen)]
        assert not found, found


def test_an_update_by_one_lane_is_not_contended(cuda_kernels: dict[str, CompiledKernel]) -> None:
    (ran,) = launched(cuda_kernels["one_lane"], 1000).kernels
    assert ran.code is not None and ran.code.contended is None
    (ran,) = launched(cuda_kernels["one_counter"], 1000).kernels
    assert ran.code is not None and ran.code.contended is not None
