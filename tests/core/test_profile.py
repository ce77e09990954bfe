from __future__ import annotations

import pytest
from kernelwright.core import Ceilings, MatrixProduct, Profile

CEILINGS = Ceilings(
    copy_gb_s=4000, matrix_gflop_s=100, half_gflop_s=800, bfloat16_gflop_s=700, float8_gflop_s=1500, cores=132
)


@pytest.mark.parametrize(
    ("dtype", "element_bytes", "rate"),
    [
        ("float32", 4, 100),
        ("float16", 2, 800),
        ("bfloat16", 2, 700),
        ("", 2, 800),
        ("float64", 8, 100),
        (None, 4, 100),
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
    assert profile.matrix_gflop_s == rate
    assert profile.compute_floor_ms == pytest.approx(1e3 / rate)


def test_a_record_without_an_fp8_ceiling_is_still_read() -> None:
    record = CEILINGS.model_dump(exclude={"float8_gflop_s"})
    product = MatrixProduct(m=64, n=64, k=64, element_bytes=1, dtype="float8_e5m2")
    profile = Profile.model_validate(
        {"flops": 1, "matrix_flops": 1, "min_bytes": 1, "eager_bytes": 1, "ceilings": record, "device": "a GPU"}
    ).model_copy(update={"product": product})
    assert profile.ceilings.float8_gflop_s is None
    assert profile.matrix_gflop_s == 800, "half precision is the nearest that was measured"
