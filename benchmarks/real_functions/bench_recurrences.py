"""References and inputs for linear attention, state updates and causal convolutions of public packages."""

import torch
from torch.nn import functional

HALF = torch.float16


def chunk_cumsum(g, chunk):
    return g.unflatten(1, (-1, chunk)).cumsum(2).flatten(1, 2)


def chunk_cumsum_inputs(seed, batch=8, time=4096, heads=32, chunk=64):
    return [torch.randn(batch, time, heads), chunk]


def cumsum(g):
    return g.cumsum(1)


def cumsum_inputs(seed, batch=8, time=4096, heads=32):
    return [torch.randn(batch, time, heads)]


def chunk_means(x, chunk):
    return x.float().unflatten(1, (-1, chunk)).mean(2).to(x.dtype)


def chunk_means_inputs(seed, batch=8, time=4096, heads=16, dim=128, chunk=64):
    return [torch.randn(batch, time, heads, dim, dtype=HALF), chunk]


def chunk_states(k, v):
    k, v = (x.float().unflatten(1, (-1, 64)) for x in (k, v))
    sums = torch.einsum("bcthk,bcthv->bchkv", k, v).cumsum(1)
    return functional.pad(sums, (0, 0) * 3 + (1, -1)).to(HALF), None


def chunk_states_inputs(seed, batch=8, time=4096, heads=16, dim=128):
    return [0.1 * torch.randn(batch, time, heads, dim, dtype=HALF) for _ in range(2)]


def chunk_outputs(q, k, v, h):
    q, k, v = (x.float().unflatten(1, (-1, 64)) for x in (q, k, v))
    scores = torch.einsum("bcthk,bcshk->bchts", q, k).tril()
    out = torch.einsum("bchts,bcshv->bcthv", scores, v) + torch.einsum("bcthk,bchkv->bcthv", q, h.float())
    return (out * q.shape[-1] ** -0.5).flatten(1, 2).to(HALF)


def chunk_outputs_inputs(seed, batch=8, time=4096, heads=16, dim=128):
    q, k, v = (torch.randn(batch, time, heads, dim, dtype=HALF) for _ in range(3))
    return [q, k, v, torch.randn(batch, time // 64, heads, dim, dim, dtype=HALF)]


def chunk_products(k, g, beta):
    k, g, beta = (x.float().unflatten(1, (-1, 64)) for x in (k, g, beta))
    scores = torch.einsum("bcthk,bcshk->bchts", k * beta[..., None], k)
    decay = torch.exp2(g.transpose(2, 3)[..., None] - g.transpose(2, 3)[..., None, :])
    return (scores * decay).tril(-1).transpose(2, 3).flatten(1, 2)


def chunk_products_inputs(seed, batch=8, time=4096, heads=16, dim=128):
    g = functional.logsigmoid(torch.randn(batch, time // 64, 64, heads)).cumsum(2).flatten(1, 2)
    k = functional.normalize(torch.randn(batch, time, heads, dim), dim=-1).to(HALF)
    return [k, g, torch.rand(batch, time, heads)]


def inverses(a):
    blocks = a.unflatten(1, (-1, a.shape[-1])).transpose(2, 3)
    inverse = torch.linalg.inv(torch.eye(a.shape[-1], device=a.device) + blocks)
    return inverse.transpose(2, 3).flatten(1, 2)


def inverses_inputs(seed, batch=8, time=4096, heads=16, size=64):
    blocks = 0.1 * torch.randn(batch, time // size, heads, size, size).tril(-1)
    return [blocks.transpose(2, 3).flatten(1, 2)]


def gated_recurrence(x, g):
    state, out = torch.zeros_like(x[:, 0], dtype=torch.float32), []
    for t in range(x.shape[1]):
        state = g[:, t].float().exp() * state + x[:, t].float()
        out.append(state.to(x.dtype))
    return torch.stack(out, 1), None


def gated_recurrence_inputs(seed, batch=8, time=2048, dim=2048):
    return [torch.randn(batch, time, dim), functional.logsigmoid(torch.randn(batch, time, dim))]


def linear_decoded(q, k, v, caches, slopes, slots):
    states = caches[slots] * torch.exp(-slopes.view(1, -1, 1, 1)) + k.mT.float() * v.float()
    caches[slots] = states
    return (q.float() @ states).to(q.dtype).transpose(1, 2).flatten(1)


def linear_decoded_inputs(seed, batch=256, heads=64, dim=96, slots=512):
    q, k, v = (torch.randn(batch, heads, 1, dim, dtype=HALF) for _ in range(3))
    return [q, k, v, torch.randn(slots, heads, dim, dim), torch.rand(heads), torch.randperm(slots)[:batch]]


def state_updated(state, x, dt, a, b, c, d, bias):
    dt = dt.float() + bias
    state.copy_(state * torch.exp(dt[..., None] * a) + (dt * x)[..., None] * b[:, 0, None, None, :])
    return (torch.einsum("bhdn,bn->bhd", state.float(), c[:, 0].float()) + x * d).to(x.dtype)


def state_updated_into(state, x, dt, a, b, c, d, bias, z, softplus, source, target, null, out):
    out.copy_(state_updated(state, x, dt, a, b, c, d, bias))


def state_updated_inputs(seed, batch=256, heads=64, dim=64, size=128):
    x, dt, out = (torch.rand(batch, heads, dim) for _ in range(3))
    b, c = torch.randn(2, batch, 1, size)
    a, d, bias = -torch.rand(heads, dim, size), torch.randn(heads, dim), torch.rand(heads, dim)
    return [torch.randn(batch, heads, dim, size), x, dt, a, b, c, d, bias, None, False, None, None, -1, out]


def convolved(x, weight, bias, residual):
    out = functional.conv1d(x.mT.float(), weight[:, None].float(), bias.float(), padding=3, groups=x.shape[-1])
    return out[..., : x.shape[1]].mT.to(x.dtype), None


def convolved_inputs(seed, batch=8, time=2048, dim=2048):
    x, weight = torch.randn(batch, time, dim, dtype=HALF), torch.randn(dim, 4, dtype=HALF)
    return [x, weight, torch.randn(dim, dtype=HALF), None]


def convolution_updated(x, state, weight, bias, activation):
    window = torch.cat([state, x[..., None]], -1)
    state.copy_(window[..., 1:])
    return functional.silu((window.float() * weight.float()).sum(-1) + bias.float()).to(x.dtype)


def convolution_updated_inputs(seed, batch=256, dim=8192, width=4):
    x, state = torch.randn(batch, dim, dtype=HALF), torch.randn(batch, dim, width - 1, dtype=HALF)
    return [x, state, torch.randn(dim, width, dtype=HALF), torch.randn(dim, dtype=HALF), "silu"]


def convolution_updated_at(x, state, weight, bias, activation, lines):
    window = torch.cat([state[lines.long()], x[..., None]], -1)
    state[lines.long()] = window[..., 1:]
    x.copy_(functional.silu((window.float() * weight.float()).sum(-1) + bias.float()))
    return x


def convolution_updated_at_inputs(seed, batch=256, dim=8192, width=4):
    x, _, *others = convolution_updated_inputs(seed, batch, dim, width)
    lines = torch.randperm(batch, dtype=torch.int32) + 1
    return [x, torch.randn(batch + 1, dim, width - 1, dtype=HALF), *others, lines]


def mixed_by_time(x, previous, weights):
    shifted = torch.cat([previous[:, None], x[:, :-1]], 1)
    return x + (shifted - x) * weights


def mixed_by_time_inputs(seed, batch=8, time=2048, dim=2048):
    return [torch.randn(batch, time, dim), torch.randn(batch, dim), torch.rand(dim)]
