"""References and inputs for losses and log probabilities of public packages."""

import torch
from torch.nn import functional


def cross_entropy(logits, target, weight):
    return functional.cross_entropy(logits.float(), target, weight)


def cross_entropy_inputs(seed, rows=8192, vocabulary=128256):
    return [torch.randn(rows, vocabulary), torch.randint(vocabulary, (rows,)), None]


def cross_entropy_rows(logits, target):
    z = logits.float().logsumexp(-1)
    return (
        functional.cross_entropy(logits.float(), target, reduction="none"),
        torch.zeros_like(z),
        z,
        logits.shape[1],
        0,
    )


def cross_entropy_rows_inputs(seed, rows=8192, vocabulary=32000):
    return [torch.randn(rows, vocabulary), torch.randint(vocabulary, (rows,))]


def divergence(log_p, q):
    return functional.kl_div(log_p, q, reduction="batchmean")


def divergence_inputs(seed, rows=8192, vocabulary=32000):
    return [torch.randn(rows, vocabulary).log_softmax(-1), torch.randn(rows, vocabulary).softmax(-1)]


def total_variation(p, q):
    return 0.5 * (p - q).abs().sum() / p.shape[0]


def total_variation_inputs(seed, rows=8192, vocabulary=32000):
    return [torch.randn(rows, vocabulary).softmax(-1), torch.randn(rows, vocabulary).softmax(-1)]


def selected_log_softmax(logits, ids, temperature):
    logs = (logits[:, :-1].float() / temperature).log_softmax(-1)
    return logs.gather(-1, ids[:, 1:, None])[..., 0]


def selected_log_softmax_inputs(seed, batch=8, tokens=1025, vocabulary=32000):
    return [torch.randn(batch, tokens, vocabulary), torch.randint(vocabulary, (batch, tokens)), 0.9]


def token_log_probabilities(logits, ids):
    return logits.float().log_softmax(-1).gather(-1, ids)


def token_log_probabilities_inputs(seed, rows=512, vocabulary=128256, chosen=20):
    return [torch.randn(rows, vocabulary), torch.randint(vocabulary, (rows, chosen))]


def logsumexp(x):
    return x.float().logsumexp(-1)


def logits_inputs(seed, rows=8192, vocabulary=32000):
    return [torch.randn(rows, vocabulary)]


def liger_cross_entropy(logits, target, weight):
    return functional.cross_entropy(logits.float(), target, weight), None, None, None


def minus_indexed_dot(e, c, indices):
    return -(e.float() * c.float()[indices]).sum(-1).to(e.dtype)


def minus_indexed_dot_inputs(seed, rows=8192, vocabulary=128256, dim=4096):
    return [
        torch.randn(rows, dim, dtype=torch.float16),
        torch.randn(vocabulary, dim, dtype=torch.float16),
        torch.randint(vocabulary, (rows,)),
    ]


def product_logsumexp(e, c):
    return (e.float() @ c.float().T).logsumexp(-1)


def product_logsumexp_inputs(seed, rows=8192, vocabulary=128256, dim=4096):
    return [torch.randn(rows, dim, dtype=torch.float16), torch.randn(vocabulary, dim, dtype=torch.float16) * dim**-0.5]
