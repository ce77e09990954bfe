import torch
from scale import scale, scale_torch


def test_scale():
    x, weight = torch.randn(64, 256), torch.randn(256)
    torch.testing.assert_close(scale(x, weight), scale_torch(x, weight))
