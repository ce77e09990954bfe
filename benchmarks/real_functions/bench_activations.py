"""References and inputs for gated activations, softmax and elementwise functions of public packages."""

import torch
from torch.nn import functional

HALF = torch.float16


def gelu_tanh(x):
    return functional.gelu(x.float(), approximate="tanh")


def two_inputs(seed, rows=8192, dim=11008):
    return [torch.randn(rows, dim, dtype=HALF), torch.randn(rows, dim, dtype=HALF)]


def packed_inputs(seed, rows=8192, dim=11008):
    return [torch.randn(rows, 2 * dim, dtype=HALF)]


def packed_bf16_inputs(seed, rows=8192, dim=11008):
    return [torch.randn(rows, 2 * dim, dtype=torch.bfloat16)]


def single_inputs(seed, rows=8192, dim=11008):
    return [torch.randn(rows, dim, dtype=HALF)]


def silu_mul(gate, up):
    return functional.silu(gate.float()).to(gate.dtype) * up


def gelu_mul(gate, up):
    return gelu_tanh(gate).to(gate.dtype) * up


def packed_silu_mul(x):
    gate, up = x.float().chunk(2, -1)
    return (functional.silu(gate) * up).to(x.dtype)


def interleaved_silu_mul(x):
    gate, up = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return (functional.silu(gate) * up).to(x.dtype)


def packed_gelu_mul(x):
    gate, up = x.float().chunk(2, -1)
    return (gelu_tanh(gate) * up).to(x.dtype)


def packed_silu_mul_in_place(x):
    gate, up = x.chunk(2, -1)
    gate.copy_(functional.silu(gate.float()).to(x.dtype) * up)
    return gate


def packed_gelu_mul_in_place(x):
    gate, up = x.chunk(2, -1)
    gate.copy_(gelu_tanh(gate).to(x.dtype) * up)
    return gate


def packed_silu_mul_into(out, x):
    out.copy_(packed_silu_mul(x))


def packed_gelu_mul_into(out, x):
    out.copy_(packed_gelu_mul(x))


def packed_into_inputs(seed, rows=8192, dim=11008):
    return [torch.empty(rows, dim, dtype=HALF), torch.randn(rows, 2 * dim, dtype=HALF)]


def packed_float_into_inputs(seed, rows=8192, dim=11008):
    return [torch.empty(rows, dim), torch.randn(rows, 2 * dim)]


def clipped_silu_mul_into(out, x, limit):
    gate, up = x.float().chunk(2, -1)
    out.copy_(functional.silu(gate).clamp(max=limit) * up.clamp(-limit, limit))


def clipped_silu_mul_into_inputs(seed, rows=8192, dim=11008):
    return [*packed_into_inputs(seed, rows, dim), 7.0]


def squared_relu(x):
    return functional.relu(x).square()


def softmax(x):
    return x.float().softmax(-1).to(x.dtype)


def softmax_float(x):
    return x.float().softmax(-1)


def log_softmax(x):
    return x.float().log_softmax(-1).to(x.dtype)


def mean(x, dim):
    return x.float().mean(dim).to(x.dtype)


def mean_inputs(seed, rows=8192, dim=11008):
    return [torch.randn(rows, dim, dtype=HALF), -1]


def swish(x):
    return functional.silu(x.float()).to(x.dtype)


def log_sigmoid(x):
    return functional.logsigmoid(x.float()).to(x.dtype)


def sigmoid_mul(x, gate):
    return (x.float() * torch.sigmoid(gate.float())).to(x.dtype)


def soft_cap(logits, cap):
    return logits.copy_(cap * torch.tanh(logits / cap))


def soft_cap_inputs(seed, rows=1024, vocabulary=128256):
    return [30.0 * torch.randn(rows, vocabulary), 30.0]


def sum_of_streams(x, weights):
    return torch.einsum("tsh,ts->th", x.float(), weights).to(x.dtype)


def sum_of_streams_inputs(seed, tokens=8192, streams=4, dim=4096):
    return [torch.randn(tokens, streams, dim, dtype=torch.bfloat16), torch.randn(tokens, streams)]


def token_shift(x):
    return functional.pad(x, (0, 0, 1, -1)) - x, *x.shape[:2], x.shape[1] <= 4096, None


def token_shift_inputs(seed, batch=8, time=2048, dim=2048):
    return [torch.randn(batch, time, dim, dtype=HALF)]


def batched_inputs(seed, batch=4, rows=2048, dim=11008):
    return [torch.randn(batch, rows, dim, dtype=HALF) for _ in range(2)]


def softmax_along(x, dim):
    return x.float().softmax(dim).to(x.dtype)


def softmax_along_inputs(seed, rows=8192, dim=11008):
    return [torch.randn(rows, dim, dtype=HALF), -1]


def scaled_silu(x, streams):
    return functional.silu(x.float() / streams).to(x.dtype)


def scaled_silu_inputs(seed, rows=8192, dim=4096):
    return [torch.randn(rows, dim, dtype=HALF), 4]


def gated_mean(x, gate, streams):
    gated = x.float() * torch.sigmoid(gate.float())
    return gated.unflatten(-1, (streams, -1)).mean(1).to(x.dtype)


def gated_mean_inputs(seed, rows=8192, dim=16384):
    return [torch.randn(rows, dim, dtype=HALF), torch.randn(rows, dim, dtype=HALF), 4]
