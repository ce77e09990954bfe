"""Inputs of benchmarks."""

import torch

WORKLOADS = {"decode": {"tokens": 16}, "batch": {"tokens": 64}}


def inputs(seed, tokens=64, hidden=128, width=64):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(shape, generator=generator, device="cpu").half()

    return draw(tokens, hidden), draw(width, hidden) / hidden**0.5, draw(width, hidden) / hidden**0.5
