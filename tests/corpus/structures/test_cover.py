"""Covers of graphs: what is joined, what torch computes by name, what is refused, and how wide indices are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from kernelwright.agent.first_kernels.from_structures import structured_kernel
from kernelwright.agent.first_kernels.unsupported_code import UnsupportedCodeError
from kernelwright.core import TorchProblem
from kernelwright.core.operator_graph import GraphValue, OperatorGraph
from kernelwright.corpus.structures.catalogue import STRUCTURES
from kernelwright.corpus.structures.cover import GraphCover
from kernelwright.corpus.structures.pointwise.pattern import STRUCTURE as POINTWISE
from kernelwright.evaluators.reference.operator_graphs import operator_graph
from torch import nn
from torch.nn import functional

from .graphs import SOURCE, Called, graph_of


def source_of(graph: OperatorGraph, arguments: str = "x") -> str:
    source = SOURCE.format(arguments=arguments)
    return structured_kernel(TorchProblem(id="level1/made", name="made", source=source), graph).source


def names(graph: OperatorGraph) -> list[str]:
    """By step, the structure or the operator that torch computes."""
    return [step.kernel.structure if step.kernel else step.region.value.operator for step in GraphCover(graph).steps()]


def test_a_chain_of_operators_is_one_kernel() -> None:
    assert names(graph_of(lambda x: functional.gelu(x * 2) + x, torch.randn(4, 8))) == ["pointwise"]
    assert names(graph_of(lambda x: functional.softmax(x * 2, -1).relu(), torch.randn(4, 8))) == ["rows"]
    assert names(graph_of(lambda x, y: functional.silu(x @ y) * 2, torch.randn(64, 64), torch.randn(64, 64))) == [
        "products"
    ]


def test_rows_of_other_lengths_are_kernels_of_their_own() -> None:
    found = names(graph_of(lambda x: functional.softmax(x.sum(1) * 2, -1), torch.randn(64, 32, 128)))
    assert found == ["rows", "rows"]


def test_an_operator_without_a_structure_is_named_and_called() -> None:
    graph = graph_of(lambda x: torch.logcumsumexp(x * 2, 1).exp(), torch.randn(4, 8))
    assert names(graph) == ["pointwise", "aten.logcumsumexp.default", "pointwise"]
    source = source_of(graph)
    assert "torch computes logcumsumexp" in source.splitlines()[0]
    assert "torch.ops.aten.logcumsumexp.default(mul, 1)" in source


def test_a_dtype_without_a_structure_is_left_to_torch() -> None:
    graph = graph_of(lambda x: torch.fft.rfft(x).abs() * 2, torch.randn(4, 8))
    assert names(graph) == ["aten._fft_r2c.default", "aten.abs.default", "pointwise"]
    double = graph_of(lambda x, y: x @ y, torch.randn(32, 32).double(), torch.randn(32, 32).double())
    (step,) = GraphCover(double).steps()
    assert step.kernel is None and "products of float64" in step.reason


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x.logcumsumexp(1), "no structure has aten.logcumsumexp.default"),
        (lambda x: x.transpose(0, 1), "nothing is computed"),
        (
            lambda x: x.to(torch.complex64).cumsum(1),
            "no structure has aten._to_copy.default, no structure has aten.cums",
        ),
    ],
)
def test_what_has_no_structure_at_all_is_refused_with_the_operator(function: Any, message: str) -> None:
    with pytest.raises(UnsupportedCodeError, match=message):
        source_of(graph_of(function, torch.randn(4, 8)))


class Counting(nn.Module):
    """A module that counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls


class Branching(nn.Module):
    """A module that asks for a value."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x


def test_what_cannot_be_a_graph_says_why() -> None:
    with pytest.raises(ValueError, match="follow from what it writes to: calls"):
        operator_graph(Counting(), [torch.randn(4)])
    with pytest.raises(ValueError, match="one tuple or list"):
        operator_graph(Called(lambda x: (x + 1, (x + 2, x + 3))), [torch.randn(4)])
    with pytest.raises(ValueError, match="something else than tensors"):
        operator_graph(Called(lambda x: (x + 1, None)), [torch.randn(4)])
    with pytest.raises(Exception, match="data-dependent"):
        operator_graph(Branching(), [torch.randn(4)])


def test_running_statistics_that_results_do_not_follow_from_are_left_out() -> None:
    norm = nn.BatchNorm2d(3)
    graph = OperatorGraph.model_validate(operator_graph(norm, [torch.randn(2, 3, 5, 5)]))
    assert norm.num_batches_tracked == 0, "the export runs no call"
    assert {value.operator for value in graph.values} >= {"aten.var.correction", "aten.mean.dim"}
    assert len(graph.outputs) == 1 and graph.form == "tensor"
    assert graph.ancestors(graph.outputs) == {value.name for value in graph.values if "running" not in value.name} - {
        "b_num_batches_tracked"
    }


def large(shape: tuple[int, ...]) -> OperatorGraph:
    """A graph of a tensor that needs not exist."""
    values = [
        GraphValue(name="x", operator="input", arguments=(0,), shapes=(shape,), dtypes=("bfloat16",)),
        GraphValue(
            name="exp", operator="aten.exp.default", arguments=({"value": "x"},), shapes=(shape,), dtypes=("bfloat16",)
        ),
        GraphValue(
            name="total",
            operator="aten.sum.dim_IntList",
            arguments=({"value": "exp"}, [1]),
            shapes=(shape[:1],),
            dtypes=("bfloat16",),
        ),
    ]
    return OperatorGraph(values=tuple(values), outputs=("exp", "total"), form="tuple")


def running(shape: tuple[int, ...]) -> OperatorGraph:
    """A graph of a running sum of a tensor that needs not exist."""
    values = [
        GraphValue(name="x", operator="input", arguments=(0,), shapes=(shape,), dtypes=("bfloat16",)),
        GraphValue(
            name="total",
            operator="aten.cumsum.default",
            arguments=({"value": "x"}, 1),
            shapes=(shape,),
            dtypes=("bfloat16",),
        ),
    ]
    return OperatorGraph(values=tuple(values), outputs=("total",), form="tensor")


def test_positions_beyond_32_bits_are_computed_in_64() -> None:
    assert ".to(tl.int64) * ROWS" in source_of(running((2**20, 4096)))
    assert "int64" not in source_of(running((2**18, 4096)))
    assert ".to(tl.int64) * ROWS" in source_of(large((2**20, 4096)))
    assert "int64" not in source_of(large((2**18, 4096)))
    # Along a leading dimension, the column is what is multiplied.
    assert "place = tl.arange(0, COLUMNS)[None, :].to(tl.int64)" in source_of(running((2**20, 4096)))
    assert "column = tl.arange(0, 4096)[None, :].to(tl.int64)" in source_of(large((2**20, 4096)))
    assert "column = start + tl.arange(0, COLUMNS)[None, :].to(tl.int64)" in source_of(large((2**12, 2**20)))


def apart(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    """Tensors that need no memory."""
    return [torch.empty(shape, device="meta") for shape in shapes]


CHOICES = (lambda x: torch.topk(x, 2, dim=0)[0], (32, 2**24), (32, 2**27))
PRODUCTS = (lambda x, y: x @ y, (16, 2**12), (2**12, 2**13), (16, 2**19), (2**19, 2**13))
TRANSPOSED = (lambda x, y: x.t() @ y, (2**12, 2**13), (2**12, 16), (2**19, 2**13), (2**19, 16))
ATTENTION = (
    lambda q, k, v: functional.scaled_dot_product_attention(q, k.transpose(1, 2), v.transpose(1, 2)),
    (1, 256, 16, 64), (1, 2**10, 256, 64), (1, 2**10, 256, 64),
    (1, 256, 16, 64), (1, 2**18, 256, 64), (1, 2**18, 256, 64),
)  # fmt: skip


@pytest.mark.parametrize(
    ("made", "lines"),
    [
        (CHOICES, ["column = tl.arange(0, 32)[None, :]"]),
        (PRODUCTS, ["sum_row = (start + tl.arange(0, BLOCK_K))[:, None]"]),
        (TRANSPOSED, ["sum_column = (start + tl.arange(0, BLOCK_K))[None, :]"]),
        (
            ATTENTION,
            ["key = (start + tl.arange(0, BLOCK_N))[None, :]", "key_row = (start + tl.arange(0, BLOCK_N))[:, None]"],
        ),
    ],
    ids=["top_k", "products", "transposed products", "attention"],
)
def test_what_a_large_distance_is_multiplied_with_has_64_bits(made: tuple[Any, ...], lines: list[str]) -> None:
    function, *shapes = made
    half = len(shapes) // 2
    for given, wide in ((shapes[:half], ""), (shapes[half:], ".to(tl.int64)")):
        source = source_of(graph_of(function, *apart(*given)), ", ".join("xyz"[: len(given)]))
        for line in lines:
            assert re.search(f"^ +{re.escape(line + wide)}$", source, re.M), source


def test_the_documents_example_becomes_what_the_document_shows() -> None:
    page = (Path(__file__).parents[3] / "docs" / "structures.md").read_text()
    reference, shown = re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(reference, namespace)
    fields = operator_graph(namespace["Model"](), namespace["get_inputs"]())
    problem = TorchProblem(id="level1/shown", name="shown", source=reference)
    assert shown in structured_kernel(problem, OperatorGraph.model_validate(fields)).source


def test_structures_of_others_may_replace_these() -> None:
    graph = graph_of(lambda x: functional.softmax(x, -1), torch.randn(4, 8))
    known = [structure.name for structure in STRUCTURES]
    assert known == ["attention", "products", "top_k", "scans", "rows", "windows", "pointwise"]
    left = [step.region.value.operator for step in GraphCover(graph, [POINTWISE]).steps() if step.kernel is None]
    assert left == ["aten.amax.default", "aten.sum.dim_IntList"]
