import torch
from linear import linear_relu, linear_relu_torch


def test_linear():
    x, weight = torch.randn(8, 64), torch.randn(64, 32)
    torch.testing.assert_close(linear_relu(x, weight), linear_relu_torch(x, weight), atol=1e-4, rtol=1e-4)
