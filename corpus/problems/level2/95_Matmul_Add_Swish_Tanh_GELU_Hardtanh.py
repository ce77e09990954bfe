"""Linear layer, added vector, then swish, tanh, GELU and hardtanh."""

import torch
from torch import nn

batch_size = 1024
in_features = 4096
out_features = 4096
add_value_shape = (out_features,)

WORKLOADS = {
    "cpu": {"batch_size": 256, "in_features": 1024, "out_features": 1024, "add_value_shape": (1024,)},
    "tiny": {"batch_size": 32, "in_features": 64, "out_features": 64, "add_value_shape": (64,)},
}


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, add_value_shape: tuple[int, ...]):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.add_value = nn.Parameter(torch.randn(add_value_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.matmul(x) + self.add_value
        x = torch.sigmoid(x) * x
        x = nn.functional.gelu(torch.tanh(x))
        return nn.functional.hardtanh(x, min_val=-1, max_val=1)


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, add_value_shape]
