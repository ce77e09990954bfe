"""Several passes of Inductor as one: torch 2.11 takes a single one for each place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch._inductor import custom_graph_pass
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.fx import Graph

# Told whether a graph is for inference; torch 2.8 has no such passes.
_AWARE: Any = getattr(custom_graph_pass, "CustomInferenceAwareGraphPass", CustomGraphPass)


class PassSequence(_AWARE):  # type: ignore[misc]
    """Runs passes one after the other."""

    def __init__(self, passes: Sequence[Callable[[Graph], object]]) -> None:
        self._passes = tuple(passes)

    def __call__(self, graph: Graph, is_inference: bool = False) -> None:
        """Run them on a graph, which they change."""
        for each in self._passes:
            if _AWARE is not CustomGraphPass and isinstance(each, _AWARE):
                each(graph, is_inference)
            else:
                each(graph)

    def uuid(self) -> Any:
        """Return the key of compiled code. None, if one pass has no key, keeps the code out of caches."""
        known = [each.uuid() if isinstance(each, CustomGraphPass) else None for each in self._passes]
        return known if all(known) else None
