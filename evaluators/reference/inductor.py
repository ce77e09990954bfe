"""Asks torch's compiler for its own Triton code of the reference: a request of the reference worker.

The graph is traced with `make_fx`, with the weights as arguments, so it is known which argument of the code is which
weight.
"""

from __future__ import annotations

import contextlib
import copy
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.text import first_line
from ..settings import Lowering
from ..workers.channel import Message
from ..workers.modules import weights_of
from .drawn_reference import DrawnReference
from .inductor_compiler import (
    Compiled,
    among_templates,
    arguments_of,
    chosen,
    code_of,
    compiled_code,
    fastest_configs,
    on_gpu,
    only_one,
    settings,
    traced,
    without_benchmarks,
)
from .inductor_kernels import configs, helpers, kernel_texts

_VALUES = {
    "DataDependentOutputException": "its Python asks for a value of a tensor, which a compiler does not know",
    "GuardOnDataDependentSymNode": "its Python asks for a value of a tensor, which a compiler does not know",
    "DynamicOutputShapeException": "a shape follows from the values of a tensor, which a compiler does not know",
}
"""Meanings of torch's exceptions, by name."""


class InductorRequests:
    """Code that torch's compiler makes of the reference; each method serves the request of its name."""

    REQUESTS = ("generate_ahead", "generate")

    def __init__(self, reference: DrawnReference) -> None:
        self._reference = reference
        self._ahead: Ahead | None = None

    def generate_ahead(self, lowering: str) -> Message:
        """Do the part of `generate` in which nothing is measured. What fails here fails there too."""
        reference, self._ahead = self._reference, None
        reference.prepare(0)
        with contextlib.suppress(Exception):  # of any part of the compiler
            self._ahead = Ahead.of(reference.model, reference.inputs, Lowering(lowering))
        reference.release()
        return {}

    def generate(self, lowering: str) -> Message:
        """Return as `code` the fields of a `GeneratedCode`, or as `obstacle` why there is none."""
        reference, ahead, self._ahead = self._reference, self._ahead, None
        if ahead is not None and ahead.lowering != lowering:
            ahead = None
        reference.prepare(0)
        try:
            code = generated(reference.model, reference.inputs, Lowering(lowering), ahead)
            return {"code": code, "obstacle": None}
        except Exception as error:  # of any part of the compiler
            why = _VALUES.get(type(error).__name__) or first_line(f"{type(error).__name__}: {error}", 300)
            return {"obstacle": f"{why}{_place(error, reference.problem.module.__file__)}"}
        finally:
            reference.release()


def _place(error: BaseException, path: str | None) -> str:
    """Return the line of the reference that an exception came through, for the end of a message."""
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f" (line {lines[-1].lineno} of the reference: {lines[-1].line})" if lines else ""


@dataclass(frozen=True)
class Ahead:
    """A model that is traced for its inputs and, where Inductor measures no choices for that, compiled."""

    lowering: Lowering
    graph: Any
    form: str
    """Form of the result: a tensor, a tuple or a list."""
    compiled: Compiled | None

    @classmethod
    def of(cls, model: Any, inputs: Sequence[Any], lowering: Lowering) -> Ahead:
        """Trace and compile."""
        weights = weights_of(model)
        graph, form = traced(model, weights, inputs, lowering)
        compiled = None
        if on_gpu(arguments := arguments_of(weights, inputs)):
            with settings(lowering), chosen(only_one), without_benchmarks(), contextlib.suppress(Exception):
                compiled = compiled_code(copy.deepcopy(graph), arguments)
        return cls(lowering, graph, form, compiled)


def generated(
    model: Any,
    inputs: Sequence[Any],
    lowering: Lowering = Lowering.TEMPLATES,
    ahead: Ahead | None = None,
) -> Message:
    """Compile a model for inputs and return the code as fields of a `GeneratedCode`.

    With real inputs on a GPU the code runs once, in which Inductor measures the configs of its kernels. With fake ones
    the configs keep Inductor's order.
    """
    import torch

    weights = weights_of(model)
    arguments = arguments_of(weights, inputs)
    graph, form = (ahead.graph, ahead.form) if ahead else traced(model, weights, inputs, lowering)
    fastest: dict[str, dict[str, int]] = {}
    with settings(lowering), chosen(among_templates):
        if on_gpu(arguments):
            compiled = (ahead and ahead.compiled) or compiled_code(graph, arguments)
            code, fastest = compiled.code, fastest_configs(compiled, arguments)
        else:
            code = code_of(graph, arguments)
    kernels = dict(kernel_texts(code))
    if lowering.in_library and not kernels:  # nothing to begin from
        return generated(model, inputs)
    return {
        "source": code,
        "weights": list(weights),
        "inputs": [number for number, value in enumerate(inputs) if isinstance(value, torch.Tensor)],
        "form": form,
        "configs": {name: _ordered(configs(text, name), fastest.get(name)) for name, text in kernels.items()},
        "helpers": helpers(kernels.values()),
    }


def _ordered(configs: Iterator[dict[str, int]], fastest: dict[str, int] | None) -> list[dict[str, int]]:
    """Return the configs with the fastest one first."""
    known = list(configs)
    return known if fastest is None else [fastest, *(item for item in known if item != fastest)]
