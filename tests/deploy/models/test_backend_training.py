"""Training with the backend where it replaces nothing: the same bits as the backend "inductor"."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from kernelwright.deploy.models.backend import kernelwright
from kernelwright.deploy.models.store import RegionStore, _opened
from torch import nn

from .regions import entry, regions


def run_of(backend: Any, function: Callable[..., Any], **options: Any) -> list[Any]:
    """Results, gradients and running statistics of two training steps, and the random state."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.SiLU(), nn.Dropout(0.5), nn.Linear(16, 4))
    torch.compiler.reset()
    call = torch.compile(lambda x: function(model, x), backend=backend, **options)
    found = []
    for rows in (8, 6) if options.get("dynamic") else (8, 8):
        x = torch.randn(rows, 16, requires_grad=True)
        result = call(x)
        result.sum().backward()
        found += [result.detach(), x.grad, *(item.grad.clone() for item in model.parameters())]
    return [*found, *model.state_dict().values(), torch.get_rng_state()]


def broken_graph(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The model with a break of the graph before and after it."""
    torch._dynamo.graph_break()
    x = model(x)
    torch._dynamo.graph_break()
    return x.sin()


def compiled_twice(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A compiled call of a model that is compiled itself."""
    return torch.compile(model, backend="inductor")(x) + 1


@pytest.mark.parametrize(
    ("state", "function", "options"),
    [
        ("empty", nn.Module.__call__, {"dynamic": True}),
        ("other", broken_graph, {}),
        ("other", compiled_twice, {}),
        ("other", nn.Module.__call__, {"mode": "reduce-overhead"}),
        ("disabled", nn.Module.__call__, {}),
        ("recorded", nn.Module.__call__, {}),
        ("recorded", nn.Module.__call__, {"dynamic": True}),
    ],
)
def test_training_without_an_entry_is_bit_for_bit_inductor(
    store: RegionStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    function: Callable[..., Any],
    options: dict[str, Any],
) -> None:
    """Recording, too, touches neither the random state nor running statistics."""
    if state in ("other", "disabled"):
        (other,) = regions(lambda x: x.sin() + 1, torch.randn(3))
        store.add(entry(other))
    if state == "disabled":
        monkeypatch.setenv("KERNELWRIGHT_DISABLE", "1")
    if state == "recorded":
        monkeypatch.setenv("KERNELWRIGHT_RECORD", str(tmp_path / "recorded"))
    _opened.cache_clear()
    expected, found = (run_of(backend, function, **options) for backend in ("inductor", kernelwright))
    assert len(found) == len(expected) and all(map(torch.equal, found, expected))
    assert (tmp_path / "recorded").is_dir() is (state == "recorded")
