from __future__ import annotations

import pytest
from kernelwright.core import Ceilings, DeviceKernel, DeviceLimits, MatrixProduct, Profile

CEILINGS = Ceilings(
    copy_gb_s=4000, matrix_gflop_s=100, half_gflop_s=800, bfloat16_gflop_s=700, float8_gflop_s=1500, cores=132
)


@pytest.mark.parametrize(
    ("dtype", "element_bytes", "rate"),
    [
        ("float32", 4, 700 / 3),
        ("float16", 2, 800),
        ("bfloat16", 2, 700),
        ("", 2, 800),
        ("float64", 8, 100),
        (None, 4, 700 / 3),
        ("float8_e4m3fn", 1, 1500),
        ("float8_e5m2", 1, 1500),
        ("int8", 1, 100),
    ],
)
def test_a_products_dtype_chooses_its_ceiling(dtype: str | None, element_bytes: int, rate: float) -> None:
    product = None if dtype is None else MatrixProduct(m=64, n=64, k=64, element_bytes=element_bytes, dtype=dtype)
    profile = Profile(
        flops=1e9, matrix_flops=1e9, min_bytes=1, eager_bytes=1, product=product, ceilings=CEILINGS, device="a GPU"
    )
    assert profile.matrix_gflop_s == pytest.approx(rate)
    assert profile.compute_floor_ms == pytest.approx(1e3 / rate)


@pytest.mark.parametrize(
    ("dtype", "ceilings", "words"),
    [
        ("float32", {}, "fp32 products as three of bf16"),
        ("", {"bfloat16_gflop_s": None, "tf32_gflop_s": 300}, "fp32 products as three of TF32"),
        ("float32", {"bfloat16_gflop_s": None}, "fp32 products"),
        ("float32", {"matrix_gflop_s": 500}, "fp32 products"),
        ("float64", {}, "float64 products"),
        ("float8_e5m2", {}, "fp8 products"),
        ("bfloat16", {}, "bf16 products"),
    ],
)
def test_a_ceiling_comes_with_its_precision(dtype: str, ceilings: dict[str, float | None], words: str) -> None:
    product = MatrixProduct(m=64, n=64, k=64, element_bytes=4, dtype=dtype)
    known = CEILINGS.model_copy(update=ceilings)
    profile = Profile(
        flops=1e9, matrix_flops=1e9, min_bytes=1, eager_bytes=1, product=product, ceilings=known, device="a GPU"
    )
    assert profile.product_precision == words


def test_exponentials_follow_from_the_clock() -> None:
    limits = DeviceLimits(
        architecture="sm_90", multiprocessors=132, shared_bytes=232448, registers=65536, threads=2048, clock_mhz=1000
    )
    assert limits.exp_g_s == 16 * 132
    assert limits.model_copy(update={"clock_mhz": None}).exp_g_s is None


def test_the_mean_occupancy_is_that_of_the_waves() -> None:
    def kernel(blocks: int) -> DeviceKernel:
        return DeviceKernel(
            name="k", launches=1, time_ms=1, own=True, blocks=blocks, threads=128, occupancy=0.5, resident_blocks=2
        )

    assert kernel(200).filled(100) == pytest.approx(0.5)
    assert kernel(250).filled(100) == pytest.approx(0.5 * 1.25 / 2)
    assert kernel(50).filled(100) == pytest.approx(0.5 / 4)
    assert kernel(50).model_copy(update={"resident_blocks": None}).filled(100) is None


def test_a_record_without_an_fp8_ceiling_is_still_read() -> None:
    record = CEILINGS.model_dump(exclude={"float8_gflop_s"})
    product = MatrixProduct(m=64, n=64, k=64, element_bytes=1, dtype="float8_e5m2")
    profile = Profile.model_validate(
        {"flops": 1, "matrix_flops": 1, "min_bytes": 1, "eager_bytes": 1, "ceilings": record, "device": "a GPU"}
    ).model_copy(update={"product": product})
    assert profile.ceilings.float8_gflop_s is None
    assert profile.matrix_gflop_s == 800, "half precision is the nearest that was measured"
