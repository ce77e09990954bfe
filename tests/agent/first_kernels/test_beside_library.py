"""First kernels of structures around calls of torch's library: which calls, and how their results are read."""

from __future__ import annotations

import functools
from typing import Any

import torch
from kernelwright.agent.first_kernels.from_structures import replaceable, structured_kernel
from kernelwright.agent.first_kernels.variants import variants_beside_library, variants_of_graph
from kernelwright.core import PythonKernel, TorchProblem
from kernelwright.core.operator_graph import OperatorGraph
from torch.nn import functional

from ...corpus.structures.graphs import SOURCE, graph_of


def problem_of(arguments: str = "x, y") -> TorchProblem:
    return TorchProblem(id="mine", name="mine", source=SOURCE.format(arguments=arguments))


def layer(x: Any, y: Any) -> Any:
    """A product, an attention over its heads, and a sum."""
    q, k, v = (t.view(2, 16, 2, 32).transpose(1, 2) for t in (x @ y).chunk(3, -1))
    attended = functional.scaled_dot_product_attention(q.sin(), k, v, is_causal=True)
    return attended.transpose(1, 2).reshape(2, 16, 64) + x


@functools.cache
def graph_of_layer() -> OperatorGraph:
    return graph_of(layer, torch.randn(2, 16, 64), torch.randn(64, 192))


def headers(kernels: list[PythonKernel] | str) -> list[str]:
    assert isinstance(kernels, list), kernels
    return [kernel.source.splitlines()[0].partition(": ")[2] for kernel in kernels]


def test_the_library_takes_the_place_of_each_structure_that_it_has_and_of_all() -> None:
    assert replaceable(graph_of_layer()) == [
        frozenset({"attention"}),
        frozenset({"products"}),
        frozenset({"attention", "products"}),
    ]
    found = headers(variants_beside_library(problem_of(), graph_of_layer()))
    named = {header.partition("torch computes ")[2] for header in found}
    assert named == {"scaled_dot_product_attention.", "mm.", "mm, scaled_dot_product_attention."}
    assert all("from structures (" in header for header in found)


def test_what_the_library_has_nothing_of_has_no_such_start() -> None:
    graph = graph_of(lambda x: functional.softmax(x * 2, -1), torch.randn(4, 8))
    why = variants_beside_library(problem_of("x"), graph)
    assert why == "torch's library has nothing of what structures compute"
    assert variants_beside_library(problem_of("x"), "no graph") == "no graph"


def test_calls_alone_are_a_start_beside_the_library_and_none_of_structures() -> None:
    graph = graph_of(lambda x: x.logcumsumexp(1), torch.randn(4, 8))
    assert "no structure fits any part" in str(variants_of_graph(problem_of("x"), graph))
    (alone,) = headers(variants_beside_library(problem_of("x"), graph))
    assert alone == "torch computes logcumsumexp."


def test_windows_of_the_library_are_a_start() -> None:
    graph = graph_of(lambda x: functional.max_pool2d(x.sin(), 2) + 1, torch.randn(1, 2, 8, 8))
    assert replaceable(graph) == [frozenset({"windows"})]
    (pooled,) = headers(variants_beside_library(problem_of("x"), graph))
    assert pooled.endswith("; torch computes max_pool2d.")


def test_a_result_of_the_library_is_put_in_order_only_for_a_kernel() -> None:
    read = structured_kernel(problem_of(), graph_of_layer(), {"attention"}).source
    call = read.partition("scaled_dot_product_attention.default(")[2]
    assert ").contiguous()" in call.partition("pointwise_add")[0]
    alone = graph_of(
        lambda x, y: functional.scaled_dot_product_attention(x, x, x).transpose(1, 2).reshape(16, 64) @ y,
        torch.randn(1, 2, 16, 32),
        torch.randn(64, 192),
    )
    source = structured_kernel(problem_of(), alone, {"attention", "products"}).source
    assert "scaled_dot_product_attention.default(given_0, given_0, given_0)\n" in source
