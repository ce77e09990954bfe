"""References and inputs for norms of public packages."""

import torch

HALF = torch.float16


def rms_norm(x, weight, eps):
    y = x.float()
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps) * weight.float()).to(x.dtype)


def rms_norm_inputs(seed, rows=16384, dim=4096):
    return [torch.randn(rows, dim, dtype=HALF), torch.randn(dim, dtype=HALF), 1e-6]


def rms_norm_bf16_inputs(seed, rows=16384, dim=4096):
    return [torch.randn(rows, dim, dtype=torch.bfloat16), torch.randn(dim, dtype=torch.bfloat16), 1e-6]


def gemma_rms_norm(x, weight, eps):
    return rms_norm(x, 1.0 + weight.float(), eps)


def add_gemma_rms_norm(x, residual, weight, eps):
    added = (x.float() + residual.float()).to(x.dtype)
    return gemma_rms_norm(added, weight, eps), added


def add_gemma_rms_norm_inputs(seed, rows=16384, dim=4096):
    return [torch.randn(rows, dim, dtype=HALF), *rms_norm_inputs(seed, rows, dim)]


def add_rms_norm(residual, x, weight, eps):
    added = residual + x
    return rms_norm(added, weight, eps), added


def rms_norm_without_weight(x, eps):
    return torch.nn.functional.rms_norm(x.float(), x.shape[-1:], eps=eps).to(x.dtype)


def rms_norm_without_weight_inputs(seed, rows=16384, dim=4096):
    return [torch.randn(rows, dim, dtype=HALF), 1e-6]


def rms_norm_add(x, y, weight, eps):
    x += y
    return rms_norm(x, weight, eps)


def add_rms_norm_in_place(x, residual, weight, eps):
    residual += x
    x.copy_(rms_norm(residual, weight, eps))


def rms_norm_into(x, weight, out, eps):
    out.copy_(rms_norm(x, weight, eps))


def rms_norm_into_inputs(seed, rows=16384, dim=4096):
    x = torch.randn(rows, dim, dtype=HALF)
    return [x, torch.randn(dim, dtype=HALF), torch.empty_like(x), 1e-6]


def conch_rms_norm(out, x, weight, eps):
    out.copy_(rms_norm(x, weight, eps))


def conch_rms_norm_inputs(seed, rows=16384, dim=4096):
    x = torch.randn(rows, dim, dtype=HALF)
    return [torch.empty_like(x), x, torch.randn(dim, dtype=HALF), 1e-6]


def liger_rms_norm(x, weight, eps):
    y = x.float()
    return weight * (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


def layer_norm(x, weight, bias, eps):
    return torch.nn.functional.layer_norm(x.float(), x.shape[-1:], weight.float(), bias.float(), eps).to(x.dtype)


def layer_norm_inputs(seed, rows=16384, dim=4096):
    return [torch.randn(rows, dim, dtype=HALF), torch.randn(dim, dtype=HALF), torch.randn(dim, dtype=HALF), 1e-5]


def dynamic_tanh(x, alpha, gamma, beta):
    return gamma * torch.tanh(alpha * x) + beta


def dynamic_tanh_inputs(seed, rows=16384, dim=4096):
    return [torch.randn(rows, dim), torch.randn(1), torch.randn(dim), torch.randn(dim)]


def l2_norm(x, eps):
    y = x.float()
    inverse = torch.rsqrt(y.square().sum(-1) + eps)
    return (y * inverse[..., None]).to(x.dtype), inverse


def l2_norm_inputs(seed, tokens=16384, heads=16, dim=128):
    return [torch.randn(tokens, heads, dim, dtype=HALF), 1e-6]


def gated_rms_norm(x, weight, bias, z):
    return (rms_norm(x.float(), weight, 1e-6) * torch.nn.functional.silu(z.float())).to(x.dtype)


def gated_rms_norm_inputs(seed, rows=16384, dim=4096):
    return [torch.randn(rows, dim, dtype=HALF), torch.randn(dim, dtype=HALF), None, torch.randn(rows, dim, dtype=HALF)]


def embedding_rms_norm(ids, table, weight, eps):
    return rms_norm(table[ids], weight, eps)


def embedding_rms_norm_inputs(seed, tokens=8192, vocabulary=128256, dim=4096):
    return [torch.randint(vocabulary, (tokens,)), *rms_norm_inputs(seed, vocabulary, dim)]


def embedding_and_rms_norm(ids, table, weight, eps):
    return table[ids], rms_norm(table[ids], weight, eps)


def grouped_gemma_rms_norm(x, weight, eps, groups):
    y = x.float().unflatten(-1, (groups, -1))
    y = (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)).flatten(-2)
    return (y * (1.0 + weight.float())).to(x.dtype)


def grouped_gemma_rms_norm_inputs(seed, rows=8192, dim=4096, groups=4):
    return [torch.randn(rows, dim, dtype=HALF), torch.randn(dim, dtype=HALF), 1e-6, groups]


def input_norm(x, out, weight, bias):
    return out.copy_(x * weight[:, None] + bias[:, None])


def input_norm_inputs(seed, batch=64, channels=3, pixels=150528):
    x = torch.randn(batch, channels, pixels)
    return [x, torch.empty_like(x), torch.randn(channels), torch.randn(channels)]


def group_norm_affine(x, weight, bias, channels, groups, eps):
    return torch.nn.functional.group_norm(x, groups, weight, bias, eps)


def group_norm_affine_inputs(seed, batch=32, channels=256, groups=32, size=4096):
    return [torch.randn(batch, channels, size), torch.randn(channels), torch.randn(channels), channels, groups, 1e-5]


def gems_rms_norm(x, shape, weight, eps):
    y = x.float()
    inverse = torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)
    return (y * inverse * weight.float()).to(x.dtype), inverse[:, 0]


def gems_rms_norm_inputs(seed, rows=16384, dim=4096):
    return [torch.randn(rows, dim, dtype=HALF), [dim], torch.randn(dim, dtype=HALF), 1e-5]
