"""Embeddings of tokens and places, and their norm."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

B = 16
S = 2048
N = 1024
WORDS = 32000
WORKLOADS = {"tiny": {"B": 2, "S": 9, "N": 77, "WORDS": 50}}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, N), nn.Embedding(S, N)
        self.norm = nn.LayerNorm(N)
        self.to(torch.bfloat16)

    def forward(self, tokens: torch.Tensor) -> Any:
        return self.norm(self.words(tokens) + self.places(torch.arange(S, device=tokens.device)))


def get_inputs() -> list[Any]:
    return [torch.randint(0, WORDS, (B, S))]


def get_init_inputs() -> list[Any]:
    return []
