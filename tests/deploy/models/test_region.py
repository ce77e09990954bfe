"""Regions of graphs and their keys."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from kernelwright.core import ProblemError
from kernelwright.deploy.models.partition import regions_of
from kernelwright.deploy.models.reference import reference_tensors, reference_text
from kernelwright.deploy.models.region import UnwrittenRegionError, problem_source, written_region
from torch import nn
from torch.nn import functional

from .regions import process, regions, traced


class Block(nn.Module):
    """A block of a transformer."""

    def __init__(self, width: int = 32, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, 3, self.heads, width // self.heads)
        q, k, v = self.qkv(self.before(x)).view(shape).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.between(x))))


def layers(count: int) -> list[str]:
    """Texts of the regions of some layers."""
    model = nn.Sequential(*(Block() for _ in range(count))).eval()
    weights = dict(model.named_parameters())
    found = regions(lambda x, given: torch.func.functional_call(model, given, (x,)), torch.randn(2, 8, 32), weights)
    return [region.text for region in found]


def test_the_same_region_of_several_layers_has_one_text() -> None:
    texts = layers(3)
    assert len(texts) == 3 * 5 + 1  # the first norm; of each layer qkv, attention, out and norm, up, down and norm
    assert len(set(texts)) == 7  # the last layer has no norm after it
    counts = sorted(texts.count(text) for text in set(texts))
    assert counts == [1, 1, 2, 3, 3, 3, 3]


def test_a_region_computes_what_the_graph_does() -> None:
    x, weight, bias, other = torch.randn(6, 8), torch.randn(4, 8), torch.randn(4), torch.randn(6, 4)

    def function(*given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = functional.gelu(functional.linear(given[0], given[1], given[2])) + given[3]
        return y, y.softmax(-1)

    (region,) = regions(function, x, weight, bias, other)
    namespace: dict[str, object] = {}
    exec(problem_source(region), namespace)
    given = {"float32[6, 8]": x, "float32[4, 8]": weight, "float32[4]": bias, "float32[6, 4]": other}
    inputs = [given[f"{dtype}{sizes}"] for dtype, sizes in reference_tensors(region.text)]
    for found, expected in zip(namespace["Model"]()(*inputs), function(x, weight, bias, other), strict=True):  # type: ignore[operator]
        torch.testing.assert_close(found, expected)
    assert [list(item.shape) for item in namespace["get_inputs"]()] == [list(item.shape) for item in inputs]  # type: ignore[operator]


def test_no_path_leaves_a_region_and_comes_back() -> None:
    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return ((y @ weight).cos() + y) @ weight + y

    found = regions(function, torch.randn(4, 4), torch.randn(4, 4))
    assert [region.text.count("torch.ops.aten.mm") for region in found] == [0, 1, 1]
    assert "sin" in found[0].text and "cos" in found[1].text
    known = {node for node in found[0].nodes[0].graph.nodes if node.op == "placeholder"}
    for region in found:  # in this order they can run one after the other
        assert {item.node for item in region.inputs} <= known
        known |= {item.node for item in region.outputs}


def test_written_attention_is_one_region() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (q @ k.transpose(-1, -2) * 0.3).softmax(-1) @ v

    (region,) = regions(function, *(torch.randn(3, 5, 4) for _ in range(3)))
    assert region.text.count("aten.bmm") == 2


def test_attention_upon_attention_gives_each_node_to_one_region() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.bmm(torch.bmm(torch.bmm(q, k).softmax(-1), v).softmax(-1), w)

    groups = regions_of(traced(function, *(torch.randn(2, 8, 8) for _ in range(4))))
    nodes = [node for group in groups for node in group.nodes]
    assert len(nodes) == len({*nodes}) == 13


def test_dtypes_that_no_text_says_are_left_to_inductor() -> None:
    """A quotient of whole numbers has the dtype of `torch.set_default_dtype`."""
    whole, x = torch.arange(1, 5), torch.rand(4)
    with pytest.raises(UnwrittenRegionError, match="the dtype of div is torch's default one"):
        regions(lambda x: (x / 2).sigmoid(), whole)
    (region,) = regions(lambda x, whole: x * whole / torch.full([4], 2.0) + whole.float() / 2, x, whole)
    assert len(region.inputs) == 2


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.rand_like(x),
        lambda x: functional.dropout(x, 0.5),
        lambda x: x.masked_select(x > 0),
        lambda x: x.new_empty(3),
    ],
)
def test_what_is_left_to_inductor(function: object) -> None:
    names = {node.name for group in regions_of(traced(function, torch.randn(4, 4))) for node in group.nodes}  # type: ignore[arg-type]
    assert not {name for name in names if "rand" in name or "select" in name or "empty" in name}


def test_sizes_that_are_symbols_are_in_no_region() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(lambda x: (x.sin().sum() + 1).cos(), tracing_mode="symbolic")(torch.randn(4, 5)).graph
    for group in regions_of(graph):
        with pytest.raises(UnwrittenRegionError, match="a size of sin is not fixed"):
            written_region(group)


def test_permuted_values_are_contiguous_in_the_region() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2).sin()

    (region,) = regions(function, torch.randn(2, 3, 4))
    assert "x0: 'float32[2, 3, 4]'" in region.text and region.outputs[0].order == (0, 2, 1)
    assert region.outputs[0].value.is_contiguous()


def test_comments_and_inputs_do_not_change_the_key() -> None:
    (region,) = regions(lambda x: x.sin() + 1, torch.randn(3))
    source = problem_source(region)
    changed = source.replace("        return", "        # a remark\n        return").replace("randn", "rand")
    assert changed != source and reference_text(changed) == region.text
    assert reference_text(source.replace("[3]'", "[4]'")) != region.text


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("class Model(", "the region's problem is not Python"),
        ("x = 1", "is not a region of a model"),
        ("class Model:\n    def forward(self, x): return x", "is not a region of a model"),
        ("class Model:\n    def forward(self, x: 'tensor'): return x", "is not a region of a model"),
    ],
)
def test_other_problems_are_refused(source: str, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        reference_text(source)


PROGRAM = """
import torch
from kernelwright.deploy.models.partition import regions_of
from kernelwright.deploy.models.region import written_region
from torch.fx.experimental.proxy_tensor import make_fx

def function(x, weight):
    return torch.nn.functional.layer_norm(x @ weight, (4,)).softmax(-1)

graph = make_fx(function, tracing_mode="fake")(torch.randn(3, 8), torch.randn(8, 4)).graph
print([written_region(group).key for group in regions_of(graph)])
"""


def test_two_processes_find_the_same_keys(tmp_path: Path) -> None:
    runs = [process(PROGRAM, tmp_path, PYTHONHASHSEED=seed) for seed in ("1", "2")]
    assert runs[0].returncode == 0, runs[0].stderr
    assert runs[0].stdout == runs[1].stdout and len(runs[0].stdout) > 34
