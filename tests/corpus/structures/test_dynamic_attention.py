"""Attention of lengths and batches that are free within a range: right at several of them, compiled for sm_90."""

from __future__ import annotations

import pytest

from .cases import DTYPES, Made, dynamic
from .test_attention import BLOCK, DISTANCES, LOWER, PREFIX, QKV, SDPA, SOFT_CAPPED, UPPER, WRITTEN

LATER = """
n, m = q.shape[-2], k.shape[-2]
i, j = torch.arange(n)[:, None] + (m - n), torch.arange(m)[None, :]
return F.scaled_dot_product_attention(q, k, v, attn_mask=j <= i)
"""
LAST = """
m = k.shape[-2]
s = (q @ k.mT / 8).masked_fill(torch.arange(m)[None, :] < m - 30, -1e9)
return s.softmax(-1) @ v
"""


def shaped(*shapes: str) -> str:
    """Inputs of these shapes, in which `t` is the size that is free."""
    return ", ".join(f"torch.randn({shape.replace('t', 'tokens')}, DTYPE)" for shape in shapes)


SAME = shaped(*["2, 2, t, 64"] * 3)
GROUPED = shaped("2, 6, 1, 40", *["2, 2, t, 40"] * 2)
PROBLEMS = {
    **{f"plain_{dtype}": dynamic(SDPA.format(""), SAME, QKV, dtype=dtype, most=150) for dtype in DTYPES},
    **{f"soft_capped_{dtype}": dynamic(SOFT_CAPPED, SAME, QKV, dtype=dtype, most=150) for dtype in DTYPES},
    "causal": dynamic(SDPA.format(", is_causal=True"), SAME, QKV, dtype="bfloat16", most=200),
    "grouped": dynamic(
        SDPA.format(", enable_gqa=True, is_causal=True, scale=0.3"), shaped("3, 4, t, 32", *["3, 2, t, 32"] * 2), QKV
    ),
    "even": dynamic(SDPA.format(", is_causal=True"), shaped(*["1, 2, 128 * t, 32"] * 3), QKV, most=3),
    "lower": dynamic(LOWER, SAME, QKV, most=150),
    "upper": dynamic(UPPER, SAME, QKV, most=150),
    "prefix": dynamic(PREFIX, SAME, QKV, most=150),
    "later": dynamic(LATER, shaped("2, 2, t, 64", *["2, 2, t + 50, 64"] * 2), QKV, most=100),
    "last": dynamic(LAST, shaped("2, 2, 40, 64", *["2, 2, t, 64"] * 2), QKV, least=30, most=300),
    "distances": dynamic(DISTANCES, SAME, QKV, most=90),
    "masked": dynamic(SDPA.format(", attn_mask=m"), f"{SAME}, torch.randn(t, t)".replace("t, t)", "tokens, tokens)"),
                      f"{QKV}, m", most=90),
    "batch": dynamic(SDPA.format(""), shaped("t, 3, 40, 32", *["t, 3, 70, 32"] * 2), QKV, most=9),
    "decoding": dynamic(SDPA.format(", enable_gqa=True"), GROUPED, QKV, dtype="float16", most=1100),
    "decoding_written": dynamic(
        WRITTEN.replace("1100", "k.shape[-2]").replace("900", "90"), GROUPED, QKV, least=100, most=600
    ),
    "decoding_batch": dynamic(
        SDPA.format(", enable_gqa=True"), shaped("t, 6, 1, 40", *["t, 2, 1100, 40"] * 2), QKV, most=9
    ),
    "block": dynamic(
        BLOCK,
        "torch.randn(2, tokens, 128), torch.randn(tokens, 32), torch.randn(tokens, 32)",
        "x, c, s",
        "self.n = nn.LayerNorm(128); self.qkv = nn.Linear(128, 384); self.o = nn.Linear(128, 128)",
        most=45,
    ),
}  # fmt: skip


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PROBLEMS)
def test_attention_is_right_in_all_of_a_range(results: dict[str, Made], name: str) -> None:
    results[name].require_exact()
    results[name].require_structures(*(["rows", "products", "attention"] if name == "block" else ["attention"]))
    results[name].require_products("attention")
