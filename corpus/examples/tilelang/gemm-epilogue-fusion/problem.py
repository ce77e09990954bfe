"""Linear layer and SiLU in fp16."""

import torch
from torch import nn

batch_size = 8192
in_features = 1024
out_features = 8192

WORKLOADS = {"tiny": {"batch_size": 128, "in_features": 128, "out_features": 256}}


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, dtype=torch.float16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.silu(self.linear(x))


def get_inputs():
    return [torch.randn(batch_size, in_features, dtype=torch.float16)]


def get_init_inputs():
    return [in_features, out_features]
