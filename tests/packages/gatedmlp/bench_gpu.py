"""Inputs of benchmarks on a GPU: one decoded token of a batch, a prompt."""

import torch

WORKLOADS = {"decode": {"tokens": 16}, "prompt": {"tokens": 4096}}


def inputs(seed, tokens=4096, hidden=4096, width=11008):
    x = torch.randn(tokens, hidden, dtype=torch.float16)
    return x, *(torch.randn(width, hidden, dtype=torch.float16) / hidden**0.5 for _ in range(2))
