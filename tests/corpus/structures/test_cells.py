"""Products that are needed at several columns: packed gates and recurrent cells, in one kernel each."""

from __future__ import annotations

import pytest

from .cases import DTYPES, Made, problem

STATES = "torch.randn(5, 24, DTYPE), torch.randn(5, 40, DTYPE)"
PROBLEMS = {
    **{
        f"lstm_{dtype}": problem(
            "return self.c(x, (h, s))",
            f"{STATES}, torch.randn(5, 40, DTYPE)",
            "x, h, s",
            "self.c = nn.LSTMCell(24, 40)",
            dtype,
        )
        for dtype in DTYPES
    },
    "gru": problem("return self.c(x, h)", STATES, "x, h", "self.c = nn.GRUCell(24, 40)", "bfloat16"),
    "packed_gate": problem(
        "a, b = self.l(x).chunk(2, -1); return F.silu(a) * b",
        "torch.randn(3, 7, 40, DTYPE)",
        init="self.l = nn.Linear(40, 48)",
        dtype="bfloat16",
    ),
    "batched_gate": problem(
        "g = torch.bmm(x, y); return g[..., :20].sigmoid() * g[..., 20:]",
        "torch.randn(2, 9, 24, DTYPE), torch.randn(2, 24, 40, DTYPE)",
        "x, y",
        dtype="float16",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_cells_are_right_and_compile_for_hopper(results: dict[str, Made], name: str) -> None:
    results[name].require_exact()
    results[name].require_structures("products")
    results[name].require_products("products")
    assert "1 Triton kernel " in results[name].header


def test_sums_of_several_lengths_have_loops_of_their_own(results: dict[str, Made]) -> None:
    source = results["lstm_bfloat16"].source
    assert "for start in range(0, 40, BLOCK_K)" in source and "for start in range(0, 24, BLOCK_K)" in source
    assert source.count("tl.dot(") == 8 and source.count("tl.store(") == 2
