"""Layer normalization over the last dimension, with an elementwise affine map."""

import torch
from torch import nn

n_rows = 16384
n_cols = 4096

WORKLOADS = {"tiny": {"n_rows": 4, "n_cols": 1500}}


class Model(nn.Module):
    def __init__(self, n_cols: int):
        super().__init__()
        self.ln = nn.LayerNorm(n_cols)
        # Ones and zeros, the defaults, would hide a kernel that leaves the affine map out.
        nn.init.normal_(self.ln.weight, mean=1.0, std=0.1)
        nn.init.normal_(self.ln.bias, std=0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.ln(x)


def get_inputs():
    return [torch.randn(n_rows, n_cols) + 1.0]


def get_init_inputs():
    return [n_cols]
