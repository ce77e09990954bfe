"""Layer normalization over the last three dimensions, with an elementwise affine map."""

import torch
from torch import nn

batch_size = 16
features = 64
dim1 = 256
dim2 = 256

WORKLOADS = {
    "cpu": {"batch_size": 16, "dim1": 64, "dim2": 64},
    "tiny": {"batch_size": 2, "features": 4, "dim1": 16, "dim2": 16},
}


class Model(nn.Module):
    def __init__(self, normalized_shape: tuple[int, ...]):
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.ln(x)


def get_inputs():
    return [torch.randn(batch_size, features, dim1, dim2)]


def get_init_inputs():
    return [(features, dim1, dim2)]
