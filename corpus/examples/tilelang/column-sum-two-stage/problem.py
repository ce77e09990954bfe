"""Sum of each column of a tall matrix, fp32."""

import torch
from torch import nn

rows = 65536
columns = 1024

WORKLOADS = {"tiny": {"rows": 1000, "columns": 200}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(dim=0)


def get_inputs():
    # Scaled so that the sums are about 1.
    return [torch.randn(rows, columns) / rows**0.5]


def get_init_inputs():
    return []
