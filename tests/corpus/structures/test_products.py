"""Products: right in Triton's interpreter with what is before and after them, and compiled for sm_90."""

from __future__ import annotations

import pytest

from .cases import DTYPES, Made, problem

GATED = "return x + self.d(F.silu(self.g(x)) * self.u(x))"
GATES = "self.g, self.u, self.d = (nn.Linear(*s, bias=False) for s in ((64, 96), (64, 96), (96, 64)))"
SHARED = "return F.silu(self.g(x)) * self.u(x) + 1"
TWO = "self.g, self.u = nn.Linear(1100, 70), nn.Linear(1100, 70, bias=False)"
INT4 = """
w = torch.stack((self.q & 15, self.q >> 4), -1).reshape(96, 128).to(torch.float16)
w = (w.view(96, 4, 32) - self.z[:, :, None]) * self.s[:, :, None]
return x @ w.reshape(96, 128).t()
"""
PACKED = """
self.register_buffer("q", torch.randint(0, 256, (96, 64), dtype=torch.uint8))
self.register_buffer("s", torch.rand(96, 4))
self.register_buffer("z", torch.rand(96, 4))
"""
INT32 = """
places = torch.arange(0, 32, 4, dtype=torch.int32)
w = ((self.q[:, None, :] >> places[None, :, None]) & 15).reshape(128, 96) - 8
w = (w.reshape(4, 32, 96) * self.s[:, None, :]).reshape(128, 96)
return x @ w.to(x.dtype)
"""
WORDS = """
self.register_buffer("q", torch.randint(-(2**31), 2**31 - 1, (16, 96), dtype=torch.int32))
self.register_buffer("s", torch.rand(4, 96))
"""
INT8 = """
self.register_buffer("q", torch.randint(-128, 127, (96, 128), dtype=torch.int8))
self.register_buffer("s", torch.rand(96, 1))
"""


def in_dtype(dtype: str) -> dict[str, str]:
    """Problems of one dtype, whose sizes are no multiples of a tile."""
    found = {
        "linear": problem(
            "return F.gelu(self.l(x)) * 2 + 1",
            "torch.randn(3, 11, 72, DTYPE)",
            init="self.l = nn.Linear(72, 50)",
            dtype=dtype,
        ),
        "gated": problem(GATED, "torch.randn(2, 17, 64, DTYPE)", init=GATES, dtype=dtype),
        "shared": problem(SHARED, "torch.randn(3, 2, 1100, DTYPE)", init=TWO, dtype=dtype),
        "plain": problem(
            "return x @ y", "torch.randn(130, 200, DTYPE), torch.randn(200, 70, DTYPE)", "x, y", dtype=dtype
        ),
    }
    return {f"{name}_{dtype}": text for name, text in found.items()}


PROBLEMS = {
    **{name: text for dtype in DTYPES for name, text in in_dtype(dtype).items()},
    "batched": problem(
        "return torch.baddbmm(c, x, y, beta=0.5, alpha=2).relu()",
        "torch.randn(3, 20, 40), torch.randn(3, 40, 36), torch.randn(3, 1, 36)",
        "x, y, c",
    ),
    "added": problem(
        "return torch.addmm(c, x, y, beta=0.5, alpha=2)",
        "torch.randn(20, 40), torch.randn(40, 36), torch.randn(36)",
        "x, y, c",
    ),
    "one_row": problem(
        "return self.l(x)", "torch.randn(1, 128, DTYPE)", init="self.l = nn.Linear(128, 80)", dtype="float16"
    ),
    "long_sum": problem(
        "return torch.baddbmm(c, x, y, beta=0.5, alpha=2).relu()",
        "torch.randn(2, 1, 3000), torch.randn(2, 3000, 36), torch.randn(2, 1, 36)",
        "x, y, c",
    ),
    "int4": problem(INT4, "torch.randn(16, 128, DTYPE)", init=PACKED, dtype="float16"),
    "int32": problem(INT32, "torch.randn(16, 128, DTYPE)", init=WORDS, dtype="float16"),
    "int8": problem(
        "return F.linear(x, self.q.to(x.dtype) * self.s)", "torch.randn(33, 128, DTYPE)", init=INT8, dtype="bfloat16"
    ),
    "embedded": problem(
        "return self.l(self.e(x))",
        "torch.randint(0, 40, (3, 9))",
        init="self.e = nn.Embedding(40, 64); self.l = nn.Linear(64, 48)",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_products_are_right_and_compile_for_hopper(results: dict[str, Made], name: str) -> None:
    results[name].require_exact()
    results[name].require_structures("products")
    results[name].require_products("products")


@pytest.mark.parametrize("name", ["int4", "int32", "int8", "embedded"])
def test_weights_are_unpacked_and_rows_gathered_in_the_products_loop(results: dict[str, Made], name: str) -> None:
    assert "1 Triton kernel " in results[name].header


def test_a_gate_of_two_products_is_one_kernel(results: dict[str, Made]) -> None:
    gate = results["gated_bfloat16"].source.split("@triton.jit")[1]
    assert gate.count("tl.dot(") == 2 and gate.count("x_ptr +") == 1


def test_programs_share_a_long_sum_of_few_rows(results: dict[str, Made]) -> None:
    source = results["shared_bfloat16"].source
    assert "SPLITS_0 = 4" in source and "if SPLITS_0 > 1:" in source
    assert "partials_0 = torch.empty([SPLITS_0, 2, 1, 6, 70], dtype=torch.float32" in source
    assert "tl.store" in source and "atomic" not in source
    assert "SPLITS" not in results["plain_bfloat16"].source, "a short sum is not shared"
