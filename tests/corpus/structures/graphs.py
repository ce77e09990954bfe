"""Graphs of functions, and the text of a problem that only has their arguments."""

from __future__ import annotations

from typing import Any

import torch
from kernelwright.core.operator_graph import OperatorGraph
from kernelwright.evaluators.reference.operator_graphs import operator_graph
from torch import nn

SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, {arguments}):
        return x


def get_inputs():
    return []


def get_init_inputs():
    return []
"""


class Called(nn.Module):
    """A module of one function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: Any) -> Any:
        return self.function(*given)


def graph_of(function: Any, *inputs: torch.Tensor) -> OperatorGraph:
    return OperatorGraph.model_validate(operator_graph(Called(function), inputs))
