"""Transposed 3-d convolution, ReLU, group normalization."""

import torch
from torch import nn

batch_size = 8
in_channels = 64
out_channels = 64
D, H, W = 16, 32, 32
kernel_size = 3
groups = 8
bias = False

WORKLOADS = {
    "cpu": {"batch_size": 2, "in_channels": 32, "out_channels": 32, "D": 8, "H": 16, "W": 16},
    "tiny": {"batch_size": 1, "in_channels": 4, "out_channels": 8, "D": 2, "H": 2, "W": 3, "groups": 2},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, groups: int, bias: bool = False):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, bias=bias)
        self.group_norm = nn.GroupNorm(num_groups=groups, num_channels=out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.group_norm(torch.relu(self.conv_transpose(x)))


def get_inputs():
    return [torch.randn(batch_size, in_channels, D, H, W)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, groups, bias]
