"""Linear layer, product with a constant, leaky ReLU."""

import torch
from torch import nn

batch_size = 1024
in_features = 4096
out_features = 4096
multiplier = 2.0
negative_slope = 0.1

WORKLOADS = {
    "cpu": {"batch_size": 256, "in_features": 1024, "out_features": 1024},
    "tiny": {"batch_size": 32, "in_features": 64, "out_features": 64},
}


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, multiplier: float, negative_slope: float):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)
        self.multiplier = multiplier
        self.leaky_relu = nn.LeakyReLU(negative_slope)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.leaky_relu(self.gemm(x) * self.multiplier)


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, multiplier, negative_slope]
