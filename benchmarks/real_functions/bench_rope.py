"""References and inputs for rotary position embeddings of public packages."""

import torch

HALF = torch.float16


def angles(positions, dim):
    return torch.outer(positions.float(), 10000.0 ** -(torch.arange(0, dim, 2) / dim))


def rotated(x, cos, sin):
    first, second = x.float().chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).to(x.dtype)


def both_in_place(q, k, cos, sin):
    for x in (q, k):
        x.copy_(rotated(x, cos[:, None].float(), sin[:, None].float()))


def both_in_place_inputs(seed, tokens=8192, heads=32, kv_heads=8, dim=128):
    angle = angles(torch.arange(tokens), dim).to(HALF)
    q, k = torch.randn(tokens, heads, dim, dtype=HALF), torch.randn(tokens, kv_heads, dim, dtype=HALF)
    return [q, k, angle.cos(), angle.sin()]


def both(q, k, cos, sin):
    half = cos.shape[-1] // 2
    return tuple(rotated(x, cos[:, None, :half].float(), sin[:, None, :half].float()) for x in (q, k))


def both_inputs(seed, tokens=8192, heads=32, kv_heads=8, dim=128):
    angle = angles(torch.arange(tokens), dim).repeat(1, 2).to(HALF)
    q, k = torch.randn(tokens, heads, dim, dtype=HALF), torch.randn(tokens, kv_heads, dim, dtype=HALF)
    return [q, k, angle.cos(), angle.sin()]


def liger(q, k, cos, sin):
    half = cos.shape[-1] // 2
    return tuple(rotated(x, cos[:, None, :, :half], sin[:, None, :, :half]) for x in (q, k))


def liger_inputs(seed, batch=4, heads=32, kv_heads=8, tokens=2048, dim=128):
    angle = angles(torch.arange(tokens), dim).repeat(1, 2)[None]
    return [torch.randn(batch, heads, tokens, dim), torch.randn(batch, kv_heads, tokens, dim), angle.cos(), angle.sin()]


def sequence(x, cos, sin):
    return rotated(x, cos[:, None].float(), sin[:, None].float())


def sequence_inputs(seed, batch=4, tokens=2048, heads=32, dim=128):
    angle = angles(torch.arange(tokens), dim).to(HALF)
    return [torch.randn(batch, tokens, heads, dim, dtype=HALF), angle.cos(), angle.sin()]


def cached(positions, query, key, head, cache):
    cos, sin = cache[positions][:, None].float().chunk(2, -1)
    for x in (query, key):
        x.copy_(rotated(x.unflatten(-1, (-1, head)), cos, sin).flatten(-2))


def cached_inputs(seed, tokens=8192, heads=32, kv_heads=8, dim=128, length=4096):
    angle = angles(torch.arange(length), dim)
    q, k = torch.randn(tokens, heads * dim, dtype=HALF), torch.randn(tokens, kv_heads * dim, dtype=HALF)
    return [torch.randint(length, (tokens,)), q, k, dim, torch.cat([angle.cos(), angle.sin()], -1).to(HALF)]


def sections(q, k, cos, sin, parts, head, rotary, interleaved, neox):
    cos, sin = (torch.cat([x[i] for i, x in enumerate(t.split(parts, -1))], -1)[:, None].float() for t in (cos, sin))
    return tuple(x.copy_(rotated(x.unflatten(-1, (-1, head)), cos, sin).flatten(-2)) for x in (q, k))


def sections_inputs(seed, tokens=8192, heads=28, kv_heads=4, dim=128):
    angle = torch.stack([angles(torch.randint(4096, (tokens,)), dim) for _ in range(3)]).to(HALF)
    q, k = torch.randn(tokens, heads * dim, dtype=HALF), torch.randn(tokens, kv_heads * dim, dtype=HALF)
    parts = [dim // 8, 3 * dim // 16, 3 * dim // 16]
    return [q, k, angle.cos(), angle.sin(), parts, dim, dim, False, True]


def packed_complex(qkv, frequencies):
    for x in qkv.unbind(1)[:2]:
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2))) * frequencies[:, None]
        x.copy_(torch.view_as_real(pairs).flatten(-2))


def packed_complex_inputs(seed, tokens=8192, heads=16, dim=128):
    angle = angles(torch.arange(tokens), dim)
    return [torch.randn(tokens, 3, heads, dim, dtype=HALF), torch.polar(torch.ones_like(angle), angle)]
