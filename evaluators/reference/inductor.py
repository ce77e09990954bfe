"""Asks torch's compiler for its own Triton code of the reference: a request of the reference worker.

The graph is traced with `make_fx`, with the weights as arguments, so it is known which argument of the code is which
weight.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

from ...core.text import first_line
from ..replay.values import form_of, weights_of
from ..workers.channel import Message
from .decompositions.table import decompositions
from .drawn_reference import DrawnReference
from .inductor_kernels import config_of, configs, helpers, kernel_texts

OPTIONS = {
    "max_autotune": True,
    "max_autotune_gemm_backends": "TRITON,ATEN",
    "max_autotune_conv_backends": "TRITON,ATEN",
    "triton.cudagraphs": False,
    "triton.num_decompose_k_splits": 0,  # its products of parts have no template
    "triton.unique_kernel_names": True,
    "triton.descriptive_names": "original_aten",
    "assert_indirect_indexing": False,
    "graph_partition": False,
    "cpp_wrapper": False,
    "fx_graph_cache": False,
    "freezing": False,
}
"""Inductor's settings; those that a version does not know are left out."""
OF_THE_LIBRARY = {"max_autotune_conv_backends": "ATEN"}
"""Settings that leave convolutions to torch's library. With templates among the choices Inductor measures all of them,
which keeps others off the device for tens of seconds."""
_VALUES = {
    "DataDependentOutputException": "its Python asks for a value of a tensor, which a compiler does not know",
    "GuardOnDataDependentSymNode": "its Python asks for a value of a tensor, which a compiler does not know",
    "DynamicOutputShapeException": "a shape follows from the values of a tensor, which a compiler does not know",
}
"""What torch's exceptions mean, by their names."""


class InductorRequests:
    """Code that torch's compiler makes of the reference; each method serves the request of its name."""

    REQUESTS = ("generate",)

    def __init__(self, reference: DrawnReference) -> None:
        self._reference = reference

    def generate(self, library: bool) -> Message:
        """Return as `code` the fields of a `GeneratedCode`, or as `obstacle` why there is none.

        `library` leaves convolutions to torch's library where they are not all there is.
        """
        reference = self._reference
        reference.prepare(0)
        try:
            return {"code": generated(reference.model, reference.inputs, library), "obstacle": None}
        except Exception as error:  # of any part of the compiler
            why = _VALUES.get(type(error).__name__) or first_line(f"{type(error).__name__}: {error}", 300)
            return {"obstacle": f"{why}{_place(error, reference.problem.module.__file__)}"}
        finally:
            reference.release()


def _place(error: BaseException, path: str | None) -> str:
    """Return the line of the reference that an exception came through, for the end of a message."""
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f" (line {lines[-1].lineno} of the reference: {lines[-1].line})" if lines else ""


class _Taken(BaseException):
    """The code is there: nothing is loaded, and nothing runs."""


def generated(model: Any, inputs: Sequence[Any], library: bool = False) -> Message:
    """Compile a model for inputs and return the code as fields of a `GeneratedCode`.

    With real inputs on a GPU the code runs once, in which Inductor measures the configs of its kernels. With fake ones
    the configs keep Inductor's order. `library` is for convolutions: see `generate`.
    """
    import torch
    import torch._inductor.config as config
    from torch._subclasses.fake_tensor import FakeTensor

    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    weights = weights_of(model)
    arguments = [*weights.values(), *tensors]
    graph, form = traced(model, weights, inputs, library)
    wanted = OPTIONS | (OF_THE_LIBRARY if library else {})
    known = {name: value for name, value in wanted.items() if name in config._config}
    runs = bool(arguments) and all(one.is_cuda and not isinstance(one, FakeTensor) for one in arguments)
    with config.patch(known), templates_first():
        code, fastest = measured_code(graph, arguments) if runs else (code_of(graph, arguments), {})
    kernels = dict(kernel_texts(code))
    if library and not kernels:  # nothing to begin from
        return generated(model, inputs)
    return {
        "source": code,
        "weights": list(weights),
        "inputs": [number for number, value in enumerate(inputs) if isinstance(value, torch.Tensor)],
        "form": form,
        "configs": {name: _ordered(configs(text, name), fastest.get(name)) for name, text in kernels.items()},
        "helpers": helpers(kernels.values()),
    }


def code_of(graph: Any, arguments: Sequence[Any]) -> str:
    """Return Inductor's code of a graph, which is neither loaded nor run."""
    from torch._inductor.graph import GraphLowering

    taken: list[str] = []

    def take(code: str) -> None:
        taken.append(code)
        raise _Taken

    with mock.patch.object(GraphLowering, "save_output_code", staticmethod(take)), contextlib.suppress(_Taken):
        lowered(graph, arguments)
    if not taken:
        raise RuntimeError("torch's compiler made no code")
    return taken[0]


def measured_code(graph: Any, arguments: Sequence[Any]) -> tuple[str, dict[str, dict[str, int]]]:
    """Run Inductor's code of a graph once; return the code, and by kernel the config that was the fastest."""
    import torch
    from torch._inductor.graph import GraphLowering
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    taken: list[str] = []
    seen: dict[str, Any] = {}
    run = CachingAutotuner.run

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen[self.fn.__name__] = self
        return run(self, *args, **kwargs)

    with mock.patch.object(GraphLowering, "save_output_code", staticmethod(taken.append)), torch.no_grad():
        compiled = lowered(graph, arguments)
        if not any(kernel_texts(taken[-1])):
            return taken[-1], {}  # a library alone may take minutes in a layout of the compiler's choice
        with mock.patch.object(CachingAutotuner, "run", watched):
            compiled(list(arguments))
    torch.cuda.synchronize()
    # A choice that is a graph of its own, and was measured, comes before.
    return taken[-1], {name: config_of(kernel.launchers[0].config) for name, kernel in seen.items()}


def _ordered(configs: Iterator[dict[str, int]], fastest: dict[str, int] | None) -> list[dict[str, int]]:
    """Return the configs with the fastest one first."""
    known = list(configs)
    return known if fastest is None else [fastest, *(one for one in known if one != fastest)]


@contextlib.contextmanager
def templates_first() -> Iterator[None]:
    """Inside, Inductor chooses among Triton's templates wherever there is one, however fast the library is.

    A call of the library is nothing to optimize.
    """
    from torch._inductor.select_algorithm import AlgorithmSelectorCache, TritonTemplateCaller

    choose = AlgorithmSelectorCache.__call__

    def among_templates(self: Any, name: str, choices: Any, *args: Any, **kwargs: Any) -> Any:
        templates = [one for one in choices if isinstance(one, TritonTemplateCaller)]
        return choose(self, name, templates or choices, *args, **kwargs)

    with mock.patch.object(AlgorithmSelectorCache, "__call__", among_templates):
        yield


def traced(model: Any, weights: Mapping[str, Any], inputs: Sequence[Any], library: bool) -> tuple[Any, str]:
    """Return the model's graph, whose arguments are the weights and then the input tensors, and its result's form.

    With `library`, convolutions are as the library has them: see `decompositions`.
    """
    import torch
    import torch._inductor.lowering  # the decomposition of max pooling takes it for loaded
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.traceback import preserve_node_meta

    names, form = list(weights), ""

    def call(*flat: Any) -> Any:
        nonlocal form
        left = iter(flat[len(names) :])
        given = tuple(next(left) if isinstance(value, torch.Tensor) else value for value in inputs)
        result = torch.func.functional_call(model, dict(zip(names, flat, strict=False)), given)
        form = form_of(result)
        return list(result) if form != "tensor" else [result]

    flat = [*weights.values(), *(value for value in inputs if isinstance(value, torch.Tensor))]
    with torch.no_grad(), preserve_node_meta():  # else no kernel is named after its operators
        # Without writes inside of the graph: those to weights come at its end.
        pure = torch.func.functionalize(call, remove="mutations")
        return make_fx(pure, decomposition_table=decompositions(library), tracing_mode="fake")(*flat), form


def lowered(graph: Any, arguments: Sequence[Any]) -> Any:
    """Compile a graph with Inductor; return the compiled function of a list of the arguments."""
    import torch
    from torch._guards import TracingContext, detect_fake_mode, tracing
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.fx_passes.joint_graph import joint_graph_passes
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = detect_fake_mode(arguments) or FakeTensorMode()
    fake = [mode.from_tensor(one, static_shapes=True) for one in arguments]
    with tracing(TracingContext(mode)), torch.no_grad():
        with mode:  # a pattern's own constants are fake too
            joint_graph_passes(graph)
        (output,) = graph.graph.find_nodes(op="output")
        output.meta["user_visible_output_idxs"] = list(range(len(output.args[0])))  # else their strides are padded
        return compile_fx_inner(graph, fake)
