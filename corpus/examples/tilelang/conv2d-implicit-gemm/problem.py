"""3 x 3 convolution in fp16, channels last."""

import torch
from torch import nn

batch_size = 8
in_channels = 128
out_channels = 128
height = 56
width = 56
kernel_size = 3
padding = 1

WORKLOADS = {
    "tiny": {"batch_size": 2, "in_channels": 64, "out_channels": 128, "height": 8, "width": 8},
}


class Model(nn.Module):
    """Takes and gives tensors of shape (batch, height, width, channels)."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, padding: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=padding, bias=False, dtype=torch.float16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


def get_inputs():
    return [torch.randn(batch_size, height, width, in_channels, dtype=torch.float16)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, padding]
