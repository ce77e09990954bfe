"""Functions that are wrong for some kinds of rows, and correct ones that round in other places, in mixed rows."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from kernelwright.core.problem import TOLERANCES
from kernelwright.evaluators.correctness.mixed_rows import MIXED
from kernelwright.evaluators.reference.accepted_inputs import InputRequests
from kernelwright.evaluators.reference.arithmetic import Arithmetic
from kernelwright.evaluators.reference.comparison import Comparison
from kernelwright.evaluators.reference.drawn_reference import DrawnReference
from kernelwright.evaluators.timing.priority import Scheduling

SOURCE = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(256))
    def forward(self, x):
        return {forward}
def get_inputs():
    return [torch.randn(128, 256)]
def get_init_inputs():
    return []
"""
FORWARDS = {
    "scale": "x * self.weight",
    "relu": "torch.relu(x)",
    "sum": "x.sum(1)",
    "softmax": "torch.softmax(x, 1)",
    "layer norm": "torch.nn.functional.layer_norm(x, (256,), self.weight)",
    "softplus": "torch.nn.functional.softplus(x)",
    "gelu": "torch.nn.functional.gelu(x)",
    "product": "x @ torch.outer(self.weight, self.weight.flip(0)).cos()",
    "norm": "x / x.norm(dim=1, keepdim=True)",
    "log softmax": "torch.log_softmax(x, 1)",
}
MEAN = "mean = x.mean(1, keepdim=True)\n        "
SCALED = "* self.weight"

WRONG = {
    "a spike in zeros": ("scale", "return torch.where(((x != 0).sum(1, keepdim=True) == 1), 0.0, x * self.weight)"),
    "rows that begin with zeros": ("sum", "return torch.where((x[:, :4] == 0).all(1), 0.0, x.sum(1))"),
    "a threshold of 1e-6": ("relu", "return torch.where(x > 1e-6, x, 0.0)"),
    "tiny elements left out": ("sum", "return torch.where(x.abs() > 1e-6, x, 0.0).sum(1)"),
    "between 1e6 and 1e20": ("scale", "return torch.where((x.abs() > 1e6) & (x.abs() < 1e20), 1e6, x) * self.weight"),
    "one row between 1e6 and 1e20": (
        "product",
        "w = torch.outer(self.weight, self.weight.flip(0)).cos()\n"
        "        large = x.abs().amax(1, keepdim=True)\n"
        "        return torch.where((large > 1e6) & (large < 1e20), x.clamp(-1e6, 1e6), x) @ w",
    ),
    "nearly constant rows": (
        "layer norm",
        MEAN + "var = (x * x).mean(1, keepdim=True) - mean * mean\n"
        f"        return (x - mean) * (var.clamp(min=0) + 1e-5).rsqrt() {SCALED}",
    ),
    "epsilon outside the root": (
        "layer norm",
        MEAN + "var = (x - mean).square().mean(1, keepdim=True)\n"
        f"        return (x - mean) / (var.sqrt() + 1e-5) {SCALED}",
    ),
    "nearly constant rows taken as constant": (
        "layer norm",
        MEAN + "var = (x - mean).square().mean(1, keepdim=True)\n"
        f"        y = (x - mean) * (var + 1e-5).rsqrt() {SCALED}\n"
        "        return torch.where(var < 1e-6 * mean.square(), 0.0, y)",
    ),
    "no maximum": ("softmax", "e = x.exp()\n        return e / e.sum(1, keepdim=True)"),
    "a maximum of the first half": (
        "softmax", "e = (x - x[:, :128].amax(1, keepdim=True)).exp()\n        return e / e.sum(1, keepdim=True)",
    ),
    "sorted rows": (
        "scale", "return torch.where((x.diff(dim=1) >= 0).all(1, keepdim=True), x.flip(1), x) * self.weight",
    ),
}  # fmt: skip
CORRECT = {
    "two passes": (
        "layer norm",
        MEAN + f"return (x - mean) * ((x - mean).square().mean(1, keepdim=True) + 1e-5).rsqrt() {SCALED}",
    ),
    "Welford over columns": (
        "layer norm",
        "mean, m2 = torch.zeros_like(x[:, :1]), torch.zeros_like(x[:, :1])\n"
        "        for i in range(x.shape[1]):\n"
        "            new = mean + (x[:, i : i + 1] - mean) / (i + 1)\n"
        "            m2, mean = m2 + (x[:, i : i + 1] - mean) * (x[:, i : i + 1] - new), new\n"
        f"        return (x - mean) / (m2 / x.shape[1] + 1e-5).sqrt() {SCALED}",
    ),
    "shifted by the first element": (
        "layer norm",
        "x = x - x[:, :1]\n        mean = x.mean(1, keepdim=True)\n"
        "        var = (x * x).mean(1, keepdim=True) - mean * mean\n"
        f"        return (x - mean) / (var.clamp(min=0) + 1e-5).sqrt() {SCALED}",
    ),
    "exp2": (
        "softmax",
        "e = torch.exp2((x - x.amax(1, keepdim=True)) * 1.4426950408889634)\n        return e / e.sum(1, keepdim=True)",
    ),
    "exp2 of scaled numbers": (
        "softmax",
        "x = x * 1.4426950408889634\n        e = torch.exp2(x - x.amax(1, keepdim=True))\n"
        "        return e / e.sum(1, keepdim=True)",
    ),
    "online": (
        "softmax",
        "m, s = torch.full_like(x[:, :1], -torch.inf), torch.zeros_like(x[:, :1])\n"
        "        for i in range(0, x.shape[1], 32):\n"
        "            part = x[:, i : i + 32]\n"
        "            new = torch.maximum(m, part.amax(1, keepdim=True))\n"
        "            s, m = s * (m - new).exp() + (part - new).exp().sum(1, keepdim=True), new\n"
        "        return (x - m).exp() / s",
    ),
    "a sum in other order": ("sum", "return x.flip(1).cumsum(1)[:, -1]"),
    "a sum in pieces": ("sum", "return x.view(-1, 16, 16).sum(1).sum(1)"),
    "denormals flushed": ("scale", "return torch.where(x.abs() < 1.2e-38, 0.0, x) * self.weight"),
    "naive softplus": ("softplus", "return torch.where(x > 20, x, torch.log(1 + x.exp()))"),
    "gelu by erfc": ("gelu", "return 0.5 * x * torch.special.erfc(x * -0.7071067811865476)"),
    "a product in two halves": (
        "product",
        "w = torch.outer(self.weight, self.weight.flip(0)).cos()\n"
        "        return x[:, 128:] @ w[128:] + x[:, :128] @ w[:128]",
    ),
    "a norm by rsqrt": ("norm", "return x * x.square().sum(1, keepdim=True).rsqrt()"),
    "a scaled norm": (
        "norm",
        "y = x / x.abs().amax(1, keepdim=True)\n        return y / y.square().sum(1, keepdim=True).sqrt()",
    ),
    "log of a softmax's sum": (
        "log softmax",
        "y = x - x.amax(1, keepdim=True)\n        return y - y.exp().sum(1, keepdim=True).log()",
    ),
}  # fmt: skip


SEEDS = range(1, 9)
LARGE = "mixed rows of large size"
OTHERS = {
    "batch norm": ("torch.nn.functional.batch_norm(x, None, None, training=True)", LARGE),
    "square product": ("torch.mm(x[:, :128], x[:, 128:].contiguous())", LARGE),
    "sum of squares": ("x.square().sum()", LARGE),
    "sum of fifth powers": ("x.pow(5).sum()", "mixed rows of moderate size"),
    "sigmoid": ("torch.sigmoid(x)", "mixed rows"),
    "cumulative sum": ("x.cumsum(1)", "mixed rows"),
}


class Reference:
    """A reference with mixed rows as its inputs."""

    def __init__(self, forward: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name, "problem.py")
        path.write_text(SOURCE.format(forward=forward))
        tolerances = {dtype: list(tolerance) for dtype, tolerance in TOLERANCES.items()}
        options = {"problem": str(path), "sizes": {}, "device": "cpu", "tolerances": tolerances}
        self.drawn = DrawnReference(options, Arithmetic(), Scheduling())
        self.comparison = Comparison(self.drawn)
        fit = InputRequests(self.drawn, self.comparison).distributions()["distributions"]
        self.names = [name for name in fit if name in MIXED]

    def verdict(self, body: str, seed: int) -> str:
        """What is said of a function's result; empty if it is correct."""
        (name,) = self.names
        self.drawn.prepare(seed, name)
        (x,) = self.drawn.inputs
        (expected,) = self.drawn.outputs([x.clone()])
        scope: dict[str, Any] = {"torch": torch}
        exec(f"def forward(self, x):\n        {body}", scope)
        actual = scope["forward"](SimpleNamespace(weight=self.drawn.model.weight.detach()), x.clone())
        rows = self.comparison.allowed(name).rows
        assert rows is not None
        found = rows(0, expected.detach(), actual.detach(), "")
        assert found is not None
        return str(found["message"])


@functools.cache
def reference(forward: str) -> Reference:
    return Reference(forward)


@pytest.fixture(autouse=True)
def without_gradients() -> Any:
    with torch.no_grad():
        yield


@pytest.mark.parametrize(("forward", "body"), WRONG.values(), ids=list(WRONG))
def test_what_is_wrong_in_some_rows_is_refused(forward: str, body: str) -> None:
    for seed in SEEDS:
        assert "rows are wrong" in reference(FORWARDS[forward]).verdict(body, seed), seed


@pytest.mark.parametrize(("forward", "body"), CORRECT.values(), ids=list(CORRECT))
def test_what_rounds_in_other_places_passes(forward: str, body: str) -> None:
    for seed in SEEDS:
        assert reference(FORWARDS[forward]).verdict(body, seed) == "", seed


@pytest.mark.parametrize("forward", FORWARDS)
def test_the_reference_itself_passes(forward: str) -> None:
    assert reference(FORWARDS[forward]).verdict(f"return {FORWARDS[forward]}", 1) == ""


@pytest.mark.parametrize(("forward", "name"), OTHERS.values(), ids=list(OTHERS))
def test_rows_are_as_large_as_the_reference_bears(forward: str, name: str) -> None:
    assert reference(forward).names == [name]
    for seed in SEEDS:
        assert reference(forward).verdict(f"return {forward}", seed) == "", seed
