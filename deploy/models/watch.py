"""Watches calls of compiled models in a script: when steps begin, what they return, and where graphs break."""

from __future__ import annotations

import functools
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ...core.text import first_line
from .steps import LISTENERS

BACKENDS = ("inductor", "kernelwright")
"""Backends of torch.compile that a watched script's models get in each other's place."""
SAMPLED = 16_384
"""Elements of a tensor that are compared, evenly spread."""
_CURVE = 8
"""Elements of the largest tensors that are kept for every call."""


class ModelWatch:
    """Observes a script's compiled models. It must be installed before the script calls torch.compile.

    `backend`, a name or a function, replaces the script's. With `values`, outputs are kept.
    """

    def __init__(self, backend: Any, values: bool) -> None:
        self._backend = backend
        self._values = values
        self._depth = 0
        self._calls: list[list[Any]] = []
        """Stamps of the beginnings of each compiled model's calls."""
        self._marks: list[Any] = []
        self._given: list[Any] = []
        """Values that marks had."""
        self._curves: dict[int, list[list[torch.Tensor]]] = {}
        self._first: dict[int, list[torch.Tensor]] = {}
        self._last: dict[int, list[torch.Tensor]] = {}

    def install(self) -> None:
        """Take the place of torch.compile, and listen to marks of steps."""
        torch.compile = self._replacing(torch.compile)
        LISTENERS.append(self._marked)

    def report(self) -> dict[str, Any]:
        """Return the observations as plain data. Time stamps become times of steps in milliseconds."""
        most = max(map(len, self._calls), default=0)
        chosen = next((place for place, calls in enumerate(self._calls) if len(calls) == most), None)
        stamps = self._marks or (self._calls[chosen] if chosen is not None else [])
        return {
            "compiled": len(self._calls),
            "called": most,
            "graphs": torch._dynamo.utils.counters["stats"]["unique_graphs"],
            "breaks": _breaks(),
            "marked": bool(self._marks),
            "steps_ms": _between(stamps),
            **(self._seen(chosen) if self._values else {}),
        }

    def _seen(self, chosen: int | None) -> dict[str, Any]:
        given = [float(value) for value in self._given if value is not None]
        calls = self._curves.get(chosen, []) if chosen is not None else []
        curve = given or [float(item) for call in calls for tensor in call for item in tensor.flatten().tolist()]
        tensors = [] if chosen is None else [*self._first.get(chosen, []), *self._last.get(chosen, [])]
        return {
            "curve": curve,
            "outputs": [] if given else [tensor.double().cpu().tolist() for tensor in tensors],
            "dtypes": sorted({str(item.dtype).removeprefix("torch.") for item in (*tensors, *self._small(calls))}),
        }

    def _small(self, calls: Sequence[Sequence[torch.Tensor]]) -> Iterator[torch.Tensor]:
        """Yield the tensors among the values of marks, and the small outputs of calls."""
        yield from (value for value in self._given if isinstance(value, torch.Tensor))
        yield from (tensor for call in calls for tensor in call)

    def _replacing(self, compile_model: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compile_model)
        def compile(model: Any = None, **options: Any) -> Any:
            if model is None:
                return lambda found: compile(found, **options)
            if options.get("backend", BACKENDS[0]) not in BACKENDS:
                return compile_model(model, **options)
            made = compile_model(model, **{**options, "backend": self._backend})
            number = len(self._calls)
            self._calls.append([])
            if isinstance(made, torch.nn.Module):
                made.forward = self._watched(made.forward, number)
                return made
            return self._watched(made, number)

        return compile

    def _watched(self, call: Callable[..., Any], number: int) -> Callable[..., Any]:
        @functools.wraps(call)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():  # within another compiled model
                return call(*args, **kwargs)
            if not self._depth:
                self._calls[number].append(_stamp())
            self._depth += 1
            try:
                result = call(*args, **kwargs)
            finally:
                self._depth -= 1
            if self._values and not self._depth:
                self._keep(number, result)
            return result

        return watched

    def _keep(self, number: int, result: Any) -> None:
        found = [item.detach() for item in tree_leaves(result) if isinstance(item, torch.Tensor)]
        found = [item for item in found if item.is_floating_point()]
        small = [item.clone() for item in found if item.numel() <= _CURVE]
        self._curves.setdefault(number, []).append(small)
        sampled = [
            item.flatten()[:: max(1, -(-item.numel() // SAMPLED))].clone() for item in found if item.numel() > _CURVE
        ]
        self._first.setdefault(number, sampled)
        self._last[number] = sampled

    def _marked(self, value: Any) -> None:
        self._marks.append(_stamp())
        if self._values:
            self._given.append(value.detach().clone() if isinstance(value, torch.Tensor) else value)


def _stamp() -> Any:
    """Return the time, or on a GPU an event in its stream: its steps are as long as the work in them."""
    if not (torch.cuda.is_available() and torch.cuda.is_initialized()):
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _between(stamps: list[Any]) -> list[float]:
    if any(not isinstance(item, float) for item in stamps):
        torch.cuda.synchronize()
    pairs = [pair for pair in itertools.pairwise(stamps) if type(pair[0]) is type(pair[1])]
    return [
        (after - before) * 1e3 if isinstance(before, float) else before.elapsed_time(after) for before, after in pairs
    ]


def _breaks() -> list[dict[str, Any]]:
    """Return where graphs break, why and how often."""
    found: Counter[tuple[str, str]] = Counter()
    for item in torch._dynamo.utils.graph_break_reasons:
        frame = item.user_stack[-1] if item.user_stack else None
        where = f"{Path(frame.filename).name}:{frame.lineno}" if frame is not None else ""
        found[where, first_line(item.reason)] += 1
    return [{"where": where, "reason": reason, "count": count} for (where, reason), count in sorted(found.items())]
