"""Convolutions and products in the forms that torch's compiler has templates for, beside torch's own results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernelwright.evaluators.reference.decompositions.convolution import Convolution
from kernelwright.evaluators.reference.decompositions.dilated import dilated
from kernelwright.evaluators.reference.decompositions.long_sums import LONGEST, PART, long_sums
from kernelwright.evaluators.reference.decompositions.one_dimensional import one_dimensional
from kernelwright.evaluators.reference.decompositions.pointwise import pointwise
from kernelwright.evaluators.reference.decompositions.table import decompositions
from kernelwright.evaluators.reference.decompositions.transposed import MOST_CONVOLUTIONS, transposed
from kernelwright.evaluators.settings import Lowering
from torch.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten
Arguments = tuple[Any, ...]


@st.composite
def convolutions(draw: st.DrawFn, backwards: bool) -> Arguments:
    """Return arguments of `aten.convolution` in fp64, for a convolution of one to three axes."""
    axes = range(draw(st.integers(1, 3)))

    def each(least: int, most: int) -> list[int]:
        return [draw(st.integers(least, most)) for _ in axes]

    taps, stride, dilation, padding = each(1, 4), each(1, 4), each(1, 3), each(0, 3)
    extra = [draw(st.integers(0, max(pair) - 1)) for pair in zip(stride, dilation, strict=True)]
    shape = list(zip(taps, stride, dilation, padding, extra, strict=True))
    if backwards:  # no output without a pixel
        least = [1 + max(0, -(-(2 * pad - far * (tap - 1) - more) // step)) for tap, step, far, pad, more in shape]
    else:
        least = [max(1, far * (tap - 1) + 1 - 2 * pad) for tap, _, far, pad, _ in shape]
    sizes = [number + draw(st.integers(0, 4)) for number in least]
    groups, channels, filters = (draw(st.integers(1, 2)) for _ in range(3))
    wide = (groups * channels, filters) if backwards else (groups * filters, channels)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 9)))

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    bias = drawn(groups * filters) if draw(st.booleans()) else None
    weight = drawn(*wide, *taps)
    output_padding = extra if backwards else [0 for _ in axes]
    x = drawn(2, groups * channels, *sizes)
    return x, weight, bias, stride, padding, dilation, backwards, output_padding, groups


def same(found: torch.Tensor, arguments: Arguments) -> None:
    expected = aten.convolution.default(*arguments)
    assert found.shape == expected.shape and found.is_contiguous()
    assert torch.allclose(found, expected, rtol=1e-12, atol=1e-12)


@settings(max_examples=150, deadline=None)
@given(convolutions(backwards=True))
def test_transposed_convolutions_are_ordinary_ones(arguments: Arguments) -> None:
    same(transposed(Convolution(*arguments)), arguments)


@settings(max_examples=80, deadline=None)
@given(convolutions(backwards=False))
def test_dilated_convolutions_are_ordinary_ones(arguments: Arguments) -> None:
    found = dilated(Convolution(*arguments))
    if found is NotImplemented:
        assert set(arguments[5]) == {1}
    else:
        same(found, arguments)


GRAPHS: dict[str, tuple[Callable[..., torch.nn.Module], dict[str, Any], int]] = {
    "one of stride 1": (torch.nn.ConvTranspose2d, {"kernel_size": 3, "padding": 1}, 1),
    "residues of one kind": (torch.nn.ConvTranspose2d, {"kernel_size": 4, "stride": 2, "padding": 1}, 1),
    "residues of two kinds": (torch.nn.ConvTranspose1d, {"kernel_size": 3, "stride": 2}, 2),
    "kinds together": (torch.nn.ConvTranspose3d, {"kernel_size": 3, "stride": 2, "padding": 1}, MOST_CONVOLUTIONS),
    "of groups": (torch.nn.ConvTranspose2d, {"kernel_size": 3, "groups": 2, "dilation": 2}, 1),
    "depthwise": (torch.nn.ConvTranspose2d, {"kernel_size": 3, "groups": 4, "stride": 2}, 0),
    "along one axis": (torch.nn.Conv1d, {"kernel_size": 3, "stride": 2, "dilation": 3}, 1),
    "of one tap": (torch.nn.Conv2d, {"kernel_size": 1}, 0),
    "of one tap, at few pixels": (torch.nn.Conv1d, {"kernel_size": 1}, 1),
    "of one tap and two groups": (torch.nn.Conv2d, {"kernel_size": 1, "groups": 2}, 1),
    "of one tap, at some pixels": (torch.nn.Conv2d, {"kernel_size": 1, "stride": 2}, 1),
    "of one tap, with a border": (torch.nn.Conv3d, {"kernel_size": 1, "padding": 1}, 1),
}


@pytest.mark.parametrize("case", GRAPHS)
def test_what_is_left_are_convolutions_with_a_template(case: str) -> None:
    """Without dilation, with two or three axes, and as few as can be."""
    module, options, count = GRAPHS[case]
    model = module(4, 4, bias=False, **options).double()
    axes = model.weight.ndim - 2  # type: ignore[operator,union-attr]
    x = torch.randn(2, 4, *[9] * axes, dtype=torch.float64)
    with torch.no_grad():
        graph = make_fx(model, decomposition_table=decompositions())(x)
        assert torch.allclose(graph(x), model(x), rtol=1e-12, atol=1e-12)
    left = [node.args for node in graph.graph.nodes if node.target is aten.convolution.default]
    assert len(left) == count
    for _, _, _, stride, _, dilation, backwards, _, _ in left:
        assert set(dilation) == {1} and not backwards and len(stride) in (2, 3)


@pytest.mark.parametrize(
    ("module", "options", "left"),
    [
        (torch.nn.ConvTranspose2d, {"stride": 2}, 1),
        (torch.nn.ConvTranspose3d, {"groups": 2}, 1),
        (torch.nn.Conv2d, {"dilation": 2}, 1),
        (torch.nn.Conv1d, {}, 1),
        (torch.nn.Conv2d, {"groups": 4}, 0),
    ],
)
def test_the_library_gets_convolutions_as_they_are_but_for_depthwise_ones(
    module: Callable[..., torch.nn.Module], options: dict[str, Any], left: int
) -> None:
    model = module(4, 4, 3, **options).double()
    x = torch.randn(2, 4, *[9] * (model.weight.ndim - 2), dtype=torch.float64)  # type: ignore[operator,union-attr]
    with torch.no_grad():
        graph = make_fx(model, decomposition_table=decompositions(Lowering.LIBRARY))(x)
        assert torch.allclose(graph(x), model(x), rtol=1e-12, atol=1e-12)
    found = [node.args for node in graph.graph.nodes if node.target is aten.convolution.default]
    assert len(found) == left
    for _, _, _, _, _, dilation, backwards, _, _ in found:
        assert backwards == model.transposed and tuple(dilation) == model.dilation


@pytest.mark.parametrize("sizes", [(64,), (9, 10), (4, 5, 6)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("layout", ["contiguous", "channels side by side"])
def test_convolutions_of_one_tap_are_products(sizes: tuple[int, ...], bias: bool, layout: str) -> None:
    x, weight = torch.randn(3, 5, *sizes).double(), torch.randn(7, 5, *[1] * len(sizes)).double()
    if layout != "contiguous":
        x = x.movedim(1, -1).contiguous().movedim(-1, 1)
    row, none = [1 for _ in sizes], [0 for _ in sizes]
    arguments = (x, weight, torch.randn(7).double() if bias else None, row, none, row, False, none, 1)
    found = pointwise(Convolution(*arguments))
    assert torch.allclose(found, aten.convolution.default(*arguments), rtol=1e-12, atol=1e-12)


def test_others_are_left_alone() -> None:
    arguments = (torch.ones(1, 1, 4, 4), torch.ones(1, 1, 2, 2), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    assert all(
        decomposition(Convolution(*arguments)) is NotImplemented
        for decomposition in (transposed, dilated, one_dimensional, pointwise)
    )


def test_a_long_sum_in_fp32_is_a_sum_of_short_ones() -> None:
    left, right, bias = torch.rand(2, 3, LONGEST + 7), torch.rand(2, LONGEST + 7, 5), torch.rand(5)

    def products(left: torch.Tensor, right: torch.Tensor, bias: torch.Tensor) -> list[torch.Tensor]:
        return [left @ right, left[1] @ right[1], torch.addmm(bias, left[0], right[0], beta=2, alpha=0.5)]

    graph = make_fx(products, decomposition_table=decompositions())(left, right, bias)
    left_over = [node for node in graph.graph.nodes if node.target in (aten.mm.default, aten.addmm.default)]
    terms = [node.args[0].meta["val"].shape[2] for node in graph.graph.nodes if node.target is aten.bmm.default]
    assert not left_over and len(terms) == 6 and max(terms) <= PART
    exactly = products(left.double(), right.double(), bias.double())
    for found, exact in zip(graph(left, right, bias), exactly, strict=True):
        assert torch.allclose(found.double(), exact, rtol=2e-6)


def test_short_sums_and_other_types_go_the_way_of_the_table() -> None:
    names = (aten.mm.default, aten.bmm.default, aten.addmm.default)
    table = long_sums({name: lambda *_, **__: "as before" for name in names})
    for left in (torch.ones(2, LONGEST), torch.ones(2, LONGEST + 1, dtype=torch.float64)):
        assert table[aten.mm.default](left, left.T) == "as before"
        assert table[aten.bmm.default](left[None], left.T[None]) == "as before"
        assert table[aten.addmm.default](left, left, left.T) == "as before"
