"""Inputs of benchmarks."""

import torch

WORKLOADS = {"decode": {"M": 16}, "batch": {"M": 48}}


def inputs(seed, M=48, N=256, K=256):
    a = torch.randint(-8, 8, (M, K), dtype=torch.int8)
    b = torch.randint(-8, 8, (N, K), dtype=torch.int8)
    return a, b, torch.rand(M, K // 128) / 16, torch.rand(N // 128, K // 128) / 16
