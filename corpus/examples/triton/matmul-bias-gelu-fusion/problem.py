"""Linear layer in fp16 followed by GELU, the first half of a transformer's feed-forward block."""

import torch
from torch import nn

tokens = 16384
in_features = 1024
out_features = 4096

WORKLOADS = {"tiny": {"tokens": 136, "in_features": 72, "out_features": 144}}


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, dtype=torch.float16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(self.linear(x))


def get_inputs():
    return [torch.randn(tokens, in_features, dtype=torch.float16)]


def get_init_inputs():
    return [in_features, out_features]
