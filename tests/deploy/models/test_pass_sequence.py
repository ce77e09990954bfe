"""Passes of the user's own beside the store's: torch 2.11 takes one pass, so they run as one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kernelwright.deploy.models.backend import kernelwright
from kernelwright.deploy.models.pass_sequence import PassSequence
from kernelwright.deploy.models.store import RegionStore
from torch._inductor.custom_graph_pass import CustomGraphPass, CustomInferenceAwareGraphPass

from .regions import entry
from .test_backend import CALL, Network, compiled, region_text


class Own(CustomGraphPass):  # type: ignore[misc]
    """A user's own pass, which notes the operators of the graphs that it meets."""

    def __init__(self, name: str | None) -> None:
        self.name, self.seen = name, set[str]()

    def __call__(self, graph: torch.fx.Graph) -> None:
        self.seen |= {str(node.target) for node in graph.nodes}

    def uuid(self) -> Any:
        return self.name


@pytest.mark.parametrize("listed", [False, True], ids=["one pass", "a list"])
def test_a_users_own_pass_runs_before(store: RegionStore, listed: bool) -> None:
    store.add(entry(region_text()))
    model, x, own = Network(), torch.randn(8, 16), Own("mine")
    handed: list[Any] = []

    def look(graph: torch.fx.Graph) -> None:
        handed.append(torch._inductor.config.post_grad_custom_pre_pass)
        own(graph)

    options = {"post_grad_custom_pre_pass": [look] if listed else look}
    with torch.no_grad():
        result, code = compiled(model, kernelwright, x, options=options)
    torch.testing.assert_close(result, model(x))
    assert CALL in code and own.seen and not any("kernelwright" in name for name in own.seen)
    assert all(isinstance(found, CustomGraphPass) for found in handed), "torch 2.11 takes no list"


def test_a_pass_that_heeds_inference_is_told(store: RegionStore) -> None:
    store.add(entry(region_text()))
    model, x, seen = Network(), torch.randn(8, 16), []

    class Aware(CustomInferenceAwareGraphPass):  # type: ignore[misc]
        def __call__(self, graph: torch.fx.Graph, is_inference: bool) -> None:
            seen.append(is_inference)

        def uuid(self) -> Any:
            return "aware"

    with torch.no_grad():
        result, code = compiled(model, kernelwright, x, options={"post_grad_custom_pre_pass": Aware()})
    torch.testing.assert_close(result, model(x))
    assert CALL in code and seen and all(seen)


def test_several_passes_depend_on_what_each_depends_on() -> None:
    """None keeps compiled code out of torch.compile's caches."""
    assert PassSequence([Own("one"), Own("two")]).uuid() == ["one", "two"]
    assert PassSequence([Own("one"), Own(None)]).uuid() is None
    assert PassSequence([lambda graph: None, Own("two")]).uuid() is None
