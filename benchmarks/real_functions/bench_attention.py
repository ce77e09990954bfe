"""References and inputs for attention of public packages: prompts, decoding from pages, caches, merges."""

import torch
from torch.nn import functional

HALF = torch.float16


def merged(out_a, lse_a, out_b, lse_b):
    a, b = torch.softmax(torch.stack([lse_a, lse_b]), 0)[..., None]
    return (a * out_a.float() + b * out_b.float()).to(out_a.dtype), torch.logaddexp(lse_a, lse_b)


def merged_inputs(seed, tokens=8192, heads=32, dim=128):
    outs = torch.randn(2, tokens, heads, dim, dtype=HALF)
    lses = torch.randn(2, tokens, heads)
    return [outs[0], lses[0], outs[1], lses[1]]


def merged_base_two(out_a, lse_a, out_b, lse_b):
    a, b = torch.softmax(torch.stack([lse_a, lse_b]) * 0.6931471805599453, 0)[..., None]
    return (a * out_a.float() + b * out_b.float()).to(out_a.dtype), torch.logaddexp2(lse_a, lse_b)


def merged_into(out, out_a, lse_a, out_b, lse_b):
    out.copy_(merged(out_a, lse_a.T, out_b, lse_b.T)[0])


def merged_into_inputs(seed, tokens=8192, heads=32, dim=128):
    out, a, b = torch.randn(3, tokens, heads, dim, dtype=HALF)
    lse_a, lse_b = torch.randn(2, heads, tokens)
    return [torch.empty_like(out), a, lse_a, b, lse_b]


def many_merged(v, s):
    weights = torch.softmax(s * 0.6931471805599453, 1)[..., None]
    return (weights * v.float()).sum(1).to(v.dtype), torch.logsumexp(s * 0.6931471805599453, 1) / 0.6931471805599453


def many_merged_inputs(seed, tokens=4096, states=8, heads=32, dim=128):
    return [torch.randn(tokens, states, heads, dim, dtype=HALF), torch.randn(tokens, states, heads)]


def splits_reduced(parts, lse, lengths, out, block):
    used = torch.arange(parts.shape[2], device=lse.device) * block < lengths[:, None, None]
    weights = torch.softmax(lse.masked_fill(~used, -torch.inf), -1)
    out.copy_((weights[..., None] * parts).sum(2))


def splits_reduced_inputs(seed, batch=64, heads=32, splits=16, dim=128, block=256):
    lengths = torch.randint(1, splits * block + 1, (batch,), dtype=torch.int32)
    parts, lse = torch.randn(batch, heads, splits, dim), torch.randn(batch, heads, splits)
    return [parts, lse, lengths, torch.empty(batch, heads, dim, dtype=HALF), block]


def ragged(q, k, v, out, starts, lengths, longest):
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        one = [x[start : start + length].transpose(0, 1) for x in (q, k, v)]
        out[start : start + length] = functional.scaled_dot_product_attention(
            *one, is_causal=True, enable_gqa=True
        ).transpose(0, 1)


def ragged_inputs(seed, batch=8, longest=2048, heads=32, kv_heads=8, dim=128):
    lengths = torch.tensor([longest - i * longest // (2 * batch) for i in range(batch)], dtype=torch.int32)
    starts, total = (lengths.cumsum(0) - lengths).int(), int(lengths.sum())
    q, k, v = (torch.randn(total, n, dim, dtype=HALF) for n in (heads, kv_heads, kv_heads))
    return [q, k, v, torch.empty_like(q), starts, lengths, int(lengths.max())]


def paged(q, keys, values, table, lengths):
    out = torch.empty_like(q)
    for i, length in enumerate(lengths.tolist()):
        k, v = (x[table[i].long()].flatten(0, 1)[:length].transpose(0, 1) for x in (keys, values))
        out[i] = functional.scaled_dot_product_attention(q[i, :, None], k, v, enable_gqa=True)[:, 0]
    return out


def paged_inputs(seed, batch=32, longest=4096, page=16, heads=32, kv_heads=8, dim=128):
    pages = longest // page
    table = torch.randperm(batch * pages, dtype=torch.int32).view(batch, pages)
    keys, values = torch.randn(2, batch * pages, page, kv_heads, dim, dtype=HALF)
    lengths = torch.randint(1, longest + 1, (batch,), dtype=torch.int32)
    return [torch.randn(batch, heads, dim, dtype=HALF), keys, values, table, lengths]


def decoded_into(q, keys, values, out, lse, table, lengths, parts, splits, scale, page):
    for i, length in enumerate(lengths.tolist()):
        k, v = (x.unflatten(0, (-1, page))[table[i].long()].flatten(0, 1)[:length].float() for x in (keys, values))
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        scores = torch.einsum("hd,thd->ht", q[i].float(), k) * scale
        out[i], lse[i] = torch.einsum("ht,thd->hd", scores.softmax(-1), v), scores.logsumexp(-1)


def decoded_into_inputs(seed, batch=32, longest=4096, page=16, heads=32, kv_heads=8, dim=128, splits=8):
    q, keys, values, table, lengths = paged_inputs(seed, batch, longest, page, heads, kv_heads, dim)
    parts, lse = torch.empty(batch, heads, splits, dim + 1), torch.empty(batch, heads)
    buffers = [keys.flatten(0, 1), values.flatten(0, 1), torch.empty_like(q), lse]
    return [q, *buffers, table, lengths, parts, splits, dim**-0.5, page]


def decoded_by_tokens(q, k, v, out, table, rows, lengths):
    for i, length in enumerate(lengths.tolist()):
        slots = table[rows[i].long(), :length].long()
        keys, values = (x[slots].transpose(0, 1) for x in (k, v))
        out[i] = functional.scaled_dot_product_attention(q[i, :, None], keys, values, enable_gqa=True)[:, 0]


def decoded_by_tokens_inputs(seed, batch=32, longest=4096, heads=32, kv_heads=2, dim=128):
    table = torch.randperm(batch * longest, dtype=torch.int32).view(batch, longest)
    q, k, v = (torch.randn(n, h, dim, dtype=HALF) for n, h in ((batch, heads), *[(table.numel(), kv_heads)] * 2))
    lengths = torch.randint(1, longest + 1, (batch,), dtype=torch.int32)
    return [q, k, v, torch.empty_like(q), table, torch.arange(batch, dtype=torch.int32), lengths]


def cached(key, value, keys, values, slots):
    for x, cache in ((key, keys), (value, values)):
        cache.view(-1, *cache.shape[2:])[slots] = x


def cached_inputs(seed, tokens=8192, blocks=1024, block=16, heads=8, dim=128):
    key, value = torch.randn(2, tokens, heads, dim, dtype=HALF)
    keys, values = torch.zeros(2, blocks, block, heads, dim, dtype=HALF)
    return [key, value, keys, values, torch.randperm(blocks * block)[:tokens]]


def cached_scaled(key, value, keys, values, slots, kind, k_scale, v_scale):
    cached(key, value, keys, values, slots)


def cached_scaled_inputs(seed, tokens=8192, blocks=1024, block=16, heads=8, dim=128):
    return [*cached_inputs(seed, tokens, blocks, block, heads, dim), "auto", torch.ones(1), torch.ones(1)]


def copied(k, places, out):
    out[places] = k


def copied_inputs(seed, tokens=8192, slots=16384, heads=8, dim=128):
    k, out = torch.randn(tokens, heads, dim, dtype=HALF), torch.zeros(slots, heads, dim, dtype=HALF)
    return [k, torch.randperm(slots)[:tokens], out]


def ragged_softmax(scores, starts, lengths, out, longest):
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        part = slice(start, start + length)
        out[:, part] = scores[:, part].float().softmax(-1)


def ragged_softmax_inputs(seed, batch=32, longest=4096, heads=32):
    lengths = torch.tensor([longest - i * longest // (2 * batch) for i in range(batch)], dtype=torch.int32)
    scores = torch.randn(heads, int(lengths.sum()), dtype=HALF)
    return [scores, (lengths.cumsum(0) - lengths).int(), lengths, torch.empty_like(scores), longest]


def int8_attention(q, k, v, q_scale, k_scale):
    q, k = q.float() * q_scale.repeat_interleave(128, 2), k.float() * k_scale.repeat_interleave(64, 2)
    return (torch.softmax(q @ k.mT * 0.6931471805599453, -1) @ v.float()).to(v.dtype)


def int8_attention_inputs(seed, batch=4, heads=32, tokens=4096, dim=128):
    q, k = torch.randint(-127, 128, (2, batch, heads, tokens, dim), dtype=torch.int8)
    scales = [torch.rand(batch, heads, tokens // size, 1) * 1e-2 for size in (128, 64)]
    return [q, k, torch.randn(batch, heads, tokens, dim, dtype=HALF), *scales]


def parts_reduced(parts, q, out, lse, values, lengths, splits):
    share = -(-lengths // splits)
    empty = torch.arange(splits, device=parts.device) * share[:, None] >= lengths[:, None]
    logits = parts[..., -1].masked_fill(empty[:, None], -torch.inf)
    out.copy_((logits.softmax(-1)[..., None] * parts[..., :-1]).sum(2))
    lse.copy_(logits.logsumexp(-1))


def parts_reduced_inputs(seed, batch=64, heads=32, splits=8, dim=128):
    q, values = torch.randn(batch, heads, dim, dtype=HALF), torch.empty(1, 1, dim, dtype=HALF)
    lengths = torch.randint(1, 4096, (batch,), dtype=torch.int32)
    parts = torch.randn(batch, heads, splits, dim + 1)
    return [parts, q, torch.empty_like(q), torch.empty(batch, heads), values, lengths, splits]


def unified(q, keys, values, out, starts, longest_q, lengths, longest, scale, causal, window, table, *others):
    for i, length in enumerate(lengths.tolist()):
        rows = slice(*starts[i : i + 2].tolist())
        k, v = (x[table[i].long()].flatten(0, 1)[:length].transpose(0, 1) for x in (keys, values))
        one = q[rows].transpose(0, 1)
        mask = torch.ones(one.shape[1], length, dtype=torch.bool, device=q.device).tril(length - one.shape[1])
        out[rows] = functional.scaled_dot_product_attention(one, k, v, mask, scale=scale, enable_gqa=True).transpose(
            0, 1
        )


def unified_inputs(seed, batch=16, new=256, longest=4096, page=16, heads=32, kv_heads=8, dim=128):
    _, keys, values, table, _ = paged_inputs(seed, batch, longest, page, heads, kv_heads, dim)
    q = torch.randn(batch * new, heads, dim, dtype=HALF)
    starts = torch.arange(batch + 1, dtype=torch.int32) * new
    lengths = torch.randint(new, longest + 1, (batch,), dtype=torch.int32)
    sizes = [starts, new, lengths, longest, dim**-0.5, True, (-1, -1), table]
    return [q, keys, values, torch.empty_like(q), *sizes, 0.0, None, torch.ones(1), torch.ones(1)]
