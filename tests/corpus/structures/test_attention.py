"""Attention: right in Triton's interpreter, compiled for sm_90, and blocks that masks hide are skipped."""

from __future__ import annotations

import pytest

from .cases import DTYPES, Made, problem

pytestmark = pytest.mark.timeout(900)
SOFT_CAPPED = """
s = q @ k.transpose(-1, -2) * 0.2
s = 20.0 * torch.tanh(s / 20.0)
i = torch.arange(q.shape[-2])[:, None]
j = torch.arange(k.shape[-2])[None, :]
m = (j <= i) & (i - j < 40)
return s.masked_fill(~m, float("-inf")).softmax(-1) @ v
"""
MULTI_QUERY = """
k = k.expand(-1, 4, -1, -1)
v = v.repeat_interleave(4, 1)
return torch.softmax((q @ k.mT).float() / 6, -1).to(q.dtype) @ v
"""
LOWER = """
n = q.shape[-2]
s = q @ k.transpose(-2, -1) / 8
return F.softmax(s.masked_fill(torch.tril(torch.ones(n, n)) == 0, -1e9), -1) @ v
"""
UPPER = """
n = q.shape[-2]
m = torch.triu(torch.full((n, n), float("-inf")), 1)
return F.softmax(q @ k.transpose(-2, -1) / 8 + m, -1) @ v
"""
PREFIX = """
i = torch.arange(q.shape[-2])[:, None]
j = torch.arange(k.shape[-2])[None, :]
return F.scaled_dot_product_attention(q, k, v, attn_mask=(j <= i) | (j < 70))
"""
DISTANCES = """
i = torch.arange(q.shape[-2])
b = -(i[:, None] - i[None, :]).abs() * (0.5 ** torch.arange(1, 3))[:, None, None]
return ((q @ k.mT) * 0.1 + b).softmax(-1) @ v
"""
BLOCK = """
b, t, e = x.shape
q, k, v = self.qkv(self.n(x)).chunk(3, -1)
q, k, v = (z.view(b, t, 4, 32).transpose(1, 2) for z in (q, k, v))
def rotated(z):
    a, d = z.chunk(2, -1)
    return z * c + torch.cat((-d, a), -1) * s
y = F.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
return x + self.o(y.transpose(1, 2).reshape(b, t, e))
"""
SDPA = "return F.scaled_dot_product_attention(q, k, v{})"


SHARED = """
y = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
return y.transpose(1, 2).reshape(2, 1, 240) * 2
"""
REPEATED = """
k, v = (x[:, :, None].expand(2, 2, 3, 1100, 40).reshape(2, 6, 1100, 40) for x in (k, v))
return F.scaled_dot_product_attention(q, k, v)
"""
WRITTEN = """
k, v = k.repeat_interleave(3, 1), v.repeat_interleave(3, 1)
w = 20 * torch.tanh(q @ k.transpose(-1, -2) / 100)
i = torch.arange(1100)
return (w.masked_fill(i[None, :] < 900, float("-inf")).float().softmax(-1)).to(q.dtype) @ v
"""
DRAFTS = """
m = torch.ones(3, 1100, dtype=torch.bool).tril(1097)
return F.scaled_dot_product_attention(q, k, v, attn_mask=m, enable_gqa=True)
"""
DRAFTS_WRITTEN = """
k, v = k.repeat_interleave(3, 1), v.repeat_interleave(3, 1)
i, j = torch.arange(3)[:, None], torch.arange(1100)[None, :]
return (q @ k.mT / 6).masked_fill(j > i + 1097, float("-inf")).float().softmax(-1).to(q.dtype) @ v
"""
DRAFTS_WINDOW = """
i, j = torch.arange(3)[:, None] + 1097, torch.arange(1100)[None, :]
return F.scaled_dot_product_attention(q, k, v, attn_mask=(j <= i) & (i - j < 64), enable_gqa=True)
"""


def heads(*shapes: tuple[int, ...]) -> str:
    """Inputs of these shapes."""
    return ", ".join(f"torch.randn{shape}"[:-1] + ", DTYPE)" for shape in shapes)


def same(*shape: int) -> str:
    """Queries, keys and values of one shape."""
    return heads(*[shape] * 3)


QKV = "q, k, v"
DECODING = heads((2, 6, 1, 40), *[(2, 2, 1100, 40)] * 2)
DRAFTED = heads((2, 6, 3, 40), *[(2, 2, 1100, 40)] * 2)
WIDE = heads((2, 3, 40, 64), (2, 3, 90, 64), (2, 3, 90, 64))
PROBLEMS = {
    **{f"sdpa_{dtype}": problem(SDPA.format(""), same(2, 3, 70, 32), QKV, dtype=dtype) for dtype in DTYPES},
    **{
        f"causal_{dtype}": problem(SDPA.format(", is_causal=True"), same(1, 2, 200, 64), QKV, dtype=dtype)
        for dtype in DTYPES
    },
    **{f"soft_capped_{dtype}": problem(SOFT_CAPPED, same(1, 2, 150, 32), QKV, dtype=dtype) for dtype in DTYPES},
    "grouped": problem(
        SDPA.format(", enable_gqa=True, is_causal=True, scale=0.3"),
        heads((1, 4, 65, 32), (1, 2, 65, 32), (1, 2, 65, 32)),
        QKV,
    ),
    "multi_query": problem(MULTI_QUERY, heads((2, 4, 33, 80), (2, 1, 50, 80), (2, 1, 50, 64)), QKV, dtype="float16"),
    "masked": problem(SDPA.format(", attn_mask=m"), f"{WIDE}, torch.rand(2, 1, 40, 90) > 0.3", f"{QKV}, m"),
    "biased": problem(SDPA.format(", attn_mask=self.b"), WIDE, QKV, "self.b = nn.Parameter(torch.randn(3, 40, 90))"),
    "lower": problem(LOWER, same(2, 2, 200, 64), QKV, dtype="bfloat16"),
    "upper": problem(UPPER, same(2, 2, 200, 64), QKV),
    "prefix": problem(PREFIX, same(1, 2, 200, 64), QKV, dtype="bfloat16"),
    "one_query": problem(SDPA.format(""), heads((2, 3, 1, 64), (2, 3, 300, 64), (2, 3, 300, 64)), QKV),
    **{f"decoding_{dtype}": problem(SHARED, DECODING, QKV, dtype=dtype) for dtype in DTYPES},
    **{f"drafts_{dtype}": problem(DRAFTS, DRAFTED, QKV, dtype=dtype) for dtype in DTYPES[:2]},
    "drafts_written": problem(DRAFTS_WRITTEN, DRAFTED, QKV, dtype="bfloat16"),
    "drafts_of_one_head": problem(SDPA.format(""), heads((2, 3, 4, 64), *[(2, 3, 600, 64)] * 2), QKV),
    "drafts_first": problem(SDPA.format(", is_causal=True, enable_gqa=True"), DRAFTED, QKV),
    "drafts_window": problem(DRAFTS_WINDOW, DRAFTED, QKV),
    "decoding_repeated": problem(REPEATED, DECODING, QKV, dtype="bfloat16"),
    "decoding_written": problem(WRITTEN, DECODING, f"{QKV}", dtype="float16"),
    "decoding_first": problem(SDPA.format(", is_causal=True"), heads((1, 6, 1, 64), *[(1, 6, 600, 64)] * 2), QKV),
    "decoding_masked": problem(
        SDPA.format(", attn_mask=m, enable_gqa=True"), f"{DECODING}, torch.rand(2, 6, 1, 1100) > 0.3", f"{QKV}, m"
    ),
    "few_queries": problem(SDPA.format(", is_causal=True"), same(1, 1, 1030, 64), QKV, dtype="float16"),
    "distances": problem(DISTANCES, same(2, 2, 90, 64), QKV),
    "large_heads": problem(SDPA.format(""), same(1, 1, 64, 256), QKV, dtype="float16"),
    "block": problem(
        BLOCK,
        "torch.randn(2, 45, 128), torch.randn(45, 32), torch.randn(45, 32)",
        "x, c, s",
        "self.n = nn.LayerNorm(128); self.qkv = nn.Linear(128, 384); self.o = nn.Linear(128, 128)",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_attention_is_right_and_compiles_for_hopper(results: dict[str, Made], name: str) -> None:
    results[name].require_exact()
    results[name].require_structures(*(["rows", "products", "attention"] if name == "block" else ["attention"]))
    results[name].require_products("attention")


@pytest.mark.parametrize(
    ("name", "begin", "end"),
    [
        ("sdpa_float32", "0", "70"),
        ("causal_float32", "0", "tl.minimum(last + 1, 200)"),
        ("soft_capped_float32", "tl.maximum(first - 39, 0) // BLOCK_N * BLOCK_N", "tl.minimum(last + 1, 150)"),
        ("lower", "0", "tl.minimum(last + 1, 200)"),
        ("upper", "0", "tl.minimum(last + 1, 200)"),
        ("prefix", "0", "tl.minimum(tl.maximum(last + 1, 70), 200)"),
        ("masked", "0", "90"),
    ],
)
def test_hidden_blocks_are_skipped(results: dict[str, Made], name: str, begin: str, end: str) -> None:
    assert f"begin = {begin}\n" in results[name].source
    assert f"end = {end}\n" in results[name].source


def test_a_rotation_is_computed_while_queries_and_keys_are_read(results: dict[str, Made]) -> None:
    assert "4 Triton kernels " in results["block"].header
    (kernel,) = (part for part in results["block"].source.split("@triton.jit") if "def attention" in part)
    assert "c_ptr +" in kernel and "s_ptr +" in kernel


@pytest.mark.parametrize("name", ["decoding_bfloat16", "decoding_repeated", "decoding_written"])
def test_one_query_shares_keys_among_programs_and_rows_with_the_heads_of_its_group(
    results: dict[str, Made], name: str
) -> None:
    source = results[name].source
    assert "SPLITS_0 = 4" in source and "partials_0 = torch.empty([SPLITS_0, 12, 40]" in source
    assert "query_mask = query < 3" in source, "the three heads of a group are the rows of a tile"
    assert "SPLITS" not in results["one_query"].source, "300 keys are not shared"


@pytest.mark.parametrize("name", ["drafts_float32", "drafts_bfloat16", "drafts_written"])
def test_few_queries_of_the_heads_of_a_group_are_the_rows_of_a_tile(results: dict[str, Made], name: str) -> None:
    source = results[name].source
    assert "query_mask = query < 9" in source and "partials_0 = torch.empty([SPLITS_0, 36, 40]" in source


@pytest.mark.parametrize("name", ["drafts_first", "drafts_window", "drafts_of_one_head"])
def test_where_a_mask_skips_blocks_or_keys_are_a_heads_own_tiles_have_one_head(
    results: dict[str, Made], name: str
) -> None:
    assert f"query_mask = query < {4 if 'one_head' in name else 3}" in results[name].source
