"""Transposed convolution, max pooling, hardtanh, mean over height and width, tanh."""

import torch
from torch import nn

batch_size = 64
in_channels = 64
out_channels = 64
height = 128
width = 128
kernel_size = 3
stride = 1
padding = 1
maxpool_kernel_size = 2
maxpool_stride = 2
hardtanh_min = -1.0
hardtanh_max = 1.0

WORKLOADS = {
    "cpu": {"batch_size": 4, "height": 32, "width": 32},
    "tiny": {"batch_size": 2, "in_channels": 8, "out_channels": 3, "height": 6, "width": 8},
}


class Model(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        maxpool_kernel_size: int,
        maxpool_stride: int,
        hardtanh_min: float,
        hardtanh_max: float,
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)
        self.maxpool = nn.MaxPool2d(maxpool_kernel_size, stride=maxpool_stride)
        self.hardtanh = nn.Hardtanh(hardtanh_min, hardtanh_max)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.hardtanh(self.maxpool(self.conv_transpose(x)))
        return torch.tanh(torch.mean(x, dim=(2, 3), keepdim=True))


def get_inputs():
    return [torch.randn(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [
        in_channels,
        out_channels,
        kernel_size,
        stride,
        padding,
        maxpool_kernel_size,
        maxpool_stride,
        hardtanh_min,
        hardtanh_max,
    ]
