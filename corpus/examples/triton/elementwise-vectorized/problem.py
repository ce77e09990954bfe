"""SwiGLU activation in fp16: silu(gate) * up, elementwise."""

import torch
from torch import nn

n_tokens = 8192
hidden = 14336

WORKLOADS = {"tiny": {"n_tokens": 5, "hidden": 1001}}


class Model(nn.Module):
    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return nn.functional.silu(gate) * up


def get_inputs():
    return [torch.randn(n_tokens, hidden).to(torch.float16), torch.randn(n_tokens, hidden).to(torch.float16)]


def get_init_inputs():
    return []
