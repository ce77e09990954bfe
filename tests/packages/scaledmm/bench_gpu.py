"""Inputs of benchmarks on a GPU."""

import torch

WORKLOADS = {"decode": {"M": 16}, "prompt": {"M": 4096}}


def inputs(seed, M=4096, N=4096, K=4096):
    a = torch.randint(-8, 8, (M, K), dtype=torch.int8)
    b = torch.randint(-8, 8, (N, K), dtype=torch.int8)
    return a, b, torch.rand(M, K // 128) / 16, torch.rand(N // 128, K // 128) / 16
