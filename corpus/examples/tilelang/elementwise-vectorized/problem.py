"""SwiGLU's gate, silu(gate) * up, element by element, fp16."""

import torch
from torch import nn
from torch.nn import functional

batch_size = 8192
dim = 11008

WORKLOADS = {"tiny": {"batch_size": 3, "dim": 5000}}


class Model(nn.Module):
    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return functional.silu(gate) * up


def get_inputs():
    return [torch.randn(batch_size, dim, dtype=torch.float16), torch.randn(batch_size, dim, dtype=torch.float16)]


def get_init_inputs():
    return []
