"""SwiGLU's gating in fp16: swish of the gate projection times the up projection."""

import torch
from torch import nn

tokens = 8192
hidden = 14336

WORKLOADS = {"tiny": {"tokens": 7, "hidden": 300}}


class Model(nn.Module):
    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return nn.functional.silu(gate) * up


def get_inputs():
    return [torch.randn(tokens, hidden, dtype=torch.float16), torch.randn(tokens, hidden, dtype=torch.float16)]


def get_init_inputs():
    return []
