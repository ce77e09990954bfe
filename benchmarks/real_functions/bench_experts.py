"""References and inputs for layers of experts and LoRA products of public packages."""

import torch
from torch.nn import functional

HALF = torch.float16


def weighted_sum(x, weights):
    return torch.einsum("tkh,tk->th", x.float(), weights.float()).to(x.dtype)


def weighted_sum_inputs(seed, tokens=4096, chosen=8, dim=4096):
    return [torch.randn(tokens, chosen, dim, dtype=HALF), torch.rand(tokens, chosen)]


def counted(ids, experts, mapping):
    return torch.bincount(ids.flatten(), minlength=experts).int()


def counted_inputs(seed, tokens=4096, chosen=8, experts=128):
    return [torch.randint(experts, (tokens, chosen), dtype=torch.int32), experts, None]


def routed(scores, bias, experts, chosen, factor):
    scores = scores.sigmoid()
    ids = (scores + bias).topk(chosen, -1).indices
    weights = scores.gather(-1, ids)
    return weights / weights.sum(-1, keepdim=True) * factor, ids


def layer(x, w1, w2, weights, ids, chosen):
    out = torch.zeros_like(x, dtype=torch.float32)
    for expert in range(len(w1)):
        token, place = torch.where(ids == expert)
        gate, up = (x[token].float() @ w1[expert].float().T).chunk(2, -1)
        y = (functional.silu(gate) * up) @ w2[expert].float().T
        out.index_add_(0, token, y * weights[token, place, None].float())
    return out.to(x.dtype)


def layer_inputs(seed, tokens=1024, chosen=4, experts=32, dim=2048, hidden=1024):
    w1, w2 = torch.randn(experts, 2 * hidden, dim, dtype=HALF), torch.randn(experts, dim, hidden, dtype=HALF)
    weights, ids = torch.randn(tokens, experts).softmax(-1).topk(chosen)
    return [torch.randn(tokens, dim, dtype=HALF), w1 * dim**-0.5, w2 * hidden**-0.5, weights, ids, chosen]


def lora(x, a, b, scaling, starts, ranks, firsts, lengths, adapters, most, longest):
    out = x.new_zeros(x.shape[0], b.shape[1])
    for first, length, adapter in zip(firsts.tolist(), lengths.tolist(), adapters.tolist(), strict=True):
        rank = slice(int(starts[adapter]), int(starts[adapter] + ranks[adapter]))
        rows = slice(first, first + length)
        out[rows] = scaling[adapter] * ((x[rows].float() @ a[rank].float().T).to(HALF).float() @ b[rank].float())
    return out


def lora_inputs(seed, batch=32, length=128, dim=4096, rank=16, adapters=8):
    a, b = (torch.randn(adapters * rank, dim, dtype=HALF) * dim**-0.5 for _ in range(2))
    starts, firsts = torch.arange(adapters) * rank, torch.arange(batch) * length
    each = [torch.rand(adapters), starts, torch.full((adapters,), rank), firsts, torch.full((batch,), length)]
    return [torch.randn(batch * length, dim, dtype=HALF), a, b, *each, torch.arange(batch) % adapters, rank, length]


def lora_shrunk(x, a, out, mapping, order, counts, starts, ids, none, active, scaling):
    for i, weights in enumerate(a):
        for token, adapter in enumerate(mapping.tolist()):
            out[i, token] = scaling * (weights[adapter, 0].float() @ x[token].float())


def lora_shrunk_inputs(seed, tokens=2048, dim=4096, rank=16, adapters=8):
    mapping = (torch.arange(tokens) % adapters).int()
    counts = torch.bincount(mapping, minlength=adapters).int()
    starts = torch.cat([torch.zeros(1), counts.cumsum(0)]).int()
    groups = [mapping, mapping.argsort(stable=True).int(), counts, starts, torch.arange(adapters, dtype=torch.int32)]
    x, a = torch.randn(tokens, dim, dtype=HALF), torch.randn(adapters, 1, rank, dim, dtype=HALF) * dim**-0.5
    flags = [torch.tensor([False]), torch.tensor([adapters], dtype=torch.int32)]
    return [x, [a], torch.zeros(1, tokens, rank), *groups, *flags, 0.5]


def lora_expanded(x, b, out, mapping, order, counts, starts, ids, none, active, offset, add):
    width = b[0].shape[-2]
    for token, adapter in enumerate(mapping.tolist()):
        for i, weights in enumerate(b):
            out[token, i * width : (i + 1) * width] += (weights[adapter, 0].float() @ x[i, token].float()).to(HALF)


def lora_expanded_inputs(seed, tokens=2048, dim=4096, rank=16, adapters=8):
    _, _, _, *others = lora_shrunk_inputs(seed, tokens, dim, rank, adapters)
    b = torch.randn(adapters, 1, dim, rank, dtype=HALF)
    return [torch.randn(1, tokens, rank), [b], torch.randn(tokens, dim, dtype=HALF), *others[:-1], 0, True]
