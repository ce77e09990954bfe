"""References and inputs for the quantizations of public packages, to int8, fp8 and four bits."""

import torch

HALF = torch.float16
FP8 = torch.float8_e4m3fn
FP8_MAX = 448.0


def rows_inputs(seed, rows=8192, dim=4096):
    return [torch.randn(rows, dim, dtype=HALF)]


def int8_rows(x):
    scale = x.float().abs().amax(-1, keepdim=True).clamp(min=1e-10) / 127
    return torch.round(x.float() / scale).clamp(-128, 127).to(torch.int8), scale


def int8_rows_eps(x, eps):
    return int8_rows(x)


def int8_rows_eps_inputs(seed, rows=8192, dim=4096):
    return [torch.randn(rows, dim, dtype=HALF), 1e-10]


def int8_rows_half_scale(x):
    scale = x.float().abs().amax(-1) / 127
    return (x.float() / scale[:, None]).to(torch.int8), scale.to(x.dtype)


def int8_groups(x, group):
    groups = x.float().unflatten(-1, (-1, group))
    scale = groups.abs().amax(-1).clamp(min=1e-10) / 127
    return (groups / scale[..., None]).clamp(-128, 127).flatten(-2).to(torch.int8), scale


def groups_inputs(seed, rows=8192, dim=4096, group=128):
    return [torch.randn(rows, dim, dtype=HALF), group]


def fp8_groups(x, group):
    groups = x.float().unflatten(-1, (-1, group))
    scale = groups.abs().amax(-1).clamp(min=1e-10) / FP8_MAX
    return (groups / scale[..., None]).clamp(-FP8_MAX, FP8_MAX).flatten(-2).to(FP8), scale


def int8_static(out, x, scale):
    out.copy_((x.float() * (1 / scale)).clamp(-128, 127))


def int8_static_inputs(seed, rows=8192, dim=4096):
    return [torch.empty(rows, dim, dtype=torch.int8), torch.randn(rows, dim, dtype=HALF), torch.tensor([0.03])]


def fp8_static(out, x, scale):
    out.copy_((x.float() / scale).clamp(-FP8_MAX, FP8_MAX))


def fp8_static_inputs(seed, rows=8192, dim=4096):
    return [torch.empty(rows, dim, dtype=FP8), torch.randn(rows, dim, dtype=HALF), torch.tensor([0.03])]


def int8_rms_norm(x, weight, eps):
    y = x.float()
    y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps) * weight.float()
    return int8_rows(y)


def int8_rms_norm_inputs(seed, rows=8192, dim=4096):
    return [torch.randn(rows, dim, dtype=HALF), torch.randn(dim, dtype=HALF), 1e-6]


def awq_unpacked(packed):
    shifts = 4 * torch.tensor([0, 4, 1, 5, 2, 6, 3, 7], device=packed.device)
    return ((packed[..., None] >> shifts) & 15).flatten(-2)


def awq_dequantized(packed, scales, zeros):
    group = packed.shape[0] // scales.shape[0]
    difference = awq_unpacked(packed) - awq_unpacked(zeros).repeat_interleave(group, 0)
    return (difference * scales.repeat_interleave(group, 0)).to(scales.dtype)


def awq_inputs(seed, k=4096, n=4096, group=128):
    words = torch.randint(-(2**31), 2**31, (k + k // group, n // 8), dtype=torch.int32)
    return [words[:k], torch.rand(k // group, n, dtype=HALF), words[k:]]


def awq_product(x, packed, scales, zeros, split):
    return (x.float() @ awq_dequantized(packed, scales, zeros).float()).to(x.dtype)


def awq_product_inputs(seed, m=64, n=4096, k=4096, group=128):
    packed, scales, zeros = awq_inputs(seed, k, n, group)
    return [torch.randn(m, k, dtype=HALF), packed, scales, zeros, 1]


def int8_codes(x, absmax, code, block):
    return code[x.long()] * absmax.repeat_interleave(block)


def int8_codes_inputs(seed, numbers=16777216, block=64):
    codes = torch.randint(256, (numbers,), dtype=torch.uint8)
    return [codes, torch.rand(numbers // block), torch.linspace(-1, 1, 256), block]


def int8_codes_float(x, absmax, code, block, dtype):
    return int8_codes(x, absmax, code, block).to(dtype)


def int8_codes_float_inputs(seed, numbers=16777216, block=64):
    return [*int8_codes_inputs(seed, numbers, block), torch.float32]


def int8_codes_search(x, code, block):
    groups = x.view(-1, block)
    absmax = groups.abs().amax(-1)
    scaled = groups / absmax[:, None]
    upper = torch.bucketize(scaled, code).clamp(1, len(code) - 1)
    is_lower = (scaled - code[upper - 1]).abs() <= (scaled - code[upper]).abs()
    return (upper - is_lower.int()).to(torch.uint8).view(x.shape), absmax


def int8_codes_search_inputs(seed, numbers=16777216, block=256):
    return [torch.randn(numbers), torch.linspace(-1, 1, 256), block]


def int8_attention_blocks(q, k):
    results = []
    for x, size, factor in ((q, 128, 1.44269504 * q.shape[-1] ** -0.5), (k, 64, 1.0)):
        blocks = x.float().unflatten(2, (-1, size)) * factor
        scale = blocks.abs().amax((-2, -1)) / 127
        scaled = blocks / scale[..., None, None]
        results += [(scaled + 0.5 * scaled.sign()).to(torch.int8).flatten(2, 3), scale[..., None]]
    return tuple(results)


def int8_attention_blocks_inputs(seed, batch=4, heads=32, tokens=4096, dim=128):
    return [torch.randn(batch, heads, tokens, dim, dtype=HALF) for _ in range(2)]


def fp8_one_scale(x, scale):
    return (x.float() / scale).clamp(-FP8_MAX, FP8_MAX).to(FP8), scale


def fp8_one_scale_inputs(seed, rows=8192, dim=4096):
    return [torch.randn(rows, dim, dtype=HALF), torch.tensor([0.03])]


def scattered_int8(x, places, out, scales):
    scale = x.abs().amax(-1, keepdim=True) / 127
    out[places], scales[places] = (x / scale).to(torch.int8), scale


def scattered_int8_inputs(seed, tokens=8192, heads=8, dim=128, slots=16384):
    out, scales = torch.zeros(slots, heads, dim, dtype=torch.int8), torch.zeros(slots, heads, 1, dtype=HALF)
    return [torch.randn(tokens, heads, dim, dtype=HALF), torch.randperm(slots)[:tokens], out, scales]
