"""Rows: right in Triton's interpreter in three dtypes, compiled for sm_90; one pass, passes, and several results."""

from __future__ import annotations

import pytest

from .cases import DTYPES, Made, problem

RMS = """
h = x + r
return h, (h.float() * torch.rsqrt(h.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(h.dtype) * self.w
"""
QUANTIZED = """
s = x.abs().amax(-1, keepdim=True).float() / 127
return torch.round(x / s).clamp(-127, 127).to(torch.int8), s
"""
LOSSES = "return F.mse_loss(x, r), F.kl_div(F.log_softmax(x, -1), F.softmax(r, -1), reduction='batchmean')"
GATHERED = "return self.n(self.e(i) + x[:, 2:7])"


def in_dtype(dtype: str) -> dict[str, str]:
    """Problems of one dtype, whose rows are no multiples of a block."""
    norm = "self.n = nn.{}"
    two = "torch.randn(3, 7, 200, DTYPE), torch.randn(3, 7, 200, DTYPE)"
    found = {
        "softmax": problem("return F.softmax(x * 0.5, dim=-1)", "torch.randn(5, 13, 77, DTYPE)", dtype=dtype),
        "rms_norm": problem(RMS, two, "x, r", "self.w = nn.Parameter(torch.rand(200))", dtype),
        "layer_norm": problem(
            "return F.silu(self.n(x))", "torch.randn(20, 96, DTYPE)", init=norm.format("LayerNorm(96)"), dtype=dtype
        ),
        "cross_entropy": problem(
            "return F.cross_entropy(x, t)",
            "torch.randn(37, 300, DTYPE), torch.randint(0, 300, (37,))",
            "x, t",
            dtype=dtype,
        ),
        "long_rows": problem(
            "return F.log_softmax(x, -1), torch.logsumexp(r, -1)",
            "torch.randn(3, 20000, DTYPE), torch.randn(3, 20000, DTYPE)",
            "x, r",
            dtype=dtype,
        ),
        "long_groups": problem(
            "return F.silu(self.n(x)) + x",
            "torch.randn(2, 16, 50, 60, DTYPE)",
            init=norm.format("GroupNorm(2, 16)"),
            dtype=dtype,
        ),
    }
    return {f"{name}_{dtype}": text for name, text in found.items()}


PROBLEMS = {
    **{name: text for dtype in DTYPES for name, text in in_dtype(dtype).items()},
    "instance_norm": problem(
        "return self.n(x).relu()", "torch.randn(3, 6, 17, 19)", init="self.n = nn.InstanceNorm2d(6, affine=True)"
    ),
    "over_channels": problem("return torch.softmax(x, 1) + x.mean((2, 3), keepdim=True)", "torch.randn(3, 10, 9, 11)"),
    "variances": problem(
        "return x.var(-1, keepdim=True) * x + x.var(-1, correction=0, keepdim=True)", "torch.randn(3, 7)"
    ),
    "long_variance": problem("return x - x.var(-1, correction=9000, keepdim=True)", "torch.randn(2, 18000)"),
    "quantized": problem(QUANTIZED, "torch.randn(33, 256)"),
    "nan_in_rows": problem(
        "return x.amax(1), x.amin(1), x.softmax(1)", "torch.tensor([[1.0, float('nan'), 3.0], [4.0, 2.0, 5.0]])"
    ),
    "nan_in_long_rows": problem(
        "x = x.where(x.abs() < 3, float('nan')); return x.amax(1), x.amin(1), x[:, :9].amax(1)", "torch.randn(2, 18000)"
    ),
    "losses": problem(LOSSES, "torch.randn(33, 50), torch.randn(33, 50)", "x, r"),
    "gathered": problem(
        GATHERED,
        "torch.randint(0, 50, (3, 5)), torch.randn(3, 9, 24)",
        "i, x",
        "self.e = nn.Embedding(50, 24); self.n = nn.LayerNorm(24)",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_rows_are_right_and_compile_for_hopper(results: dict[str, Made], name: str) -> None:
    results[name].require_exact()
    shared = name == "long_groups_float32"  # four rows: a second launch combines, and a third writes what needs it
    results[name].require_structures(*(("rows", "pointwise") if shared else ("rows",)))
    assert results[name].shared


def test_a_sum_that_the_norm_returns_too_is_stored_by_its_kernel(results: dict[str, Made]) -> None:
    assert results["rms_norm_bfloat16"].header.count("1 Triton kernel ") == 1
    assert results["rms_norm_bfloat16"].source.count("tl.store(") == 2


def test_a_row_in_registers_is_read_once_and_a_long_one_in_two_passes(results: dict[str, Made]) -> None:
    assert results["softmax_float32"].source.count("tl.load(") == 1
    assert "for start" not in results["softmax_float32"].source
    first = next(part for part in results["long_rows_float32"].source.split("@triton.jit") if "for start" in part)
    assert first.count("for start") == 2, "the maximum and the sum online, then the result"


def test_a_target_of_the_loss_is_read_where_it_is(results: dict[str, Made]) -> None:
    kernels = results["cross_entropy_float32"].source.split("@triton.jit")
    assert len(kernels) == 3, "the rows, and the mean over them"
    assert "tl.where(v" in kernels[1] and "t_ptr" in kernels[1]
