"""Asks torch's compiler for its own Triton code of the reference: a request of the reference worker.

The graph is traced with `make_fx`, with the weights as arguments, so it is known which argument of the code is which
weight. Nothing of the code is executed here but the configs that Inductor would try.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

from ...core.text import first_line
from ..replay.values import form_of, weights_of
from ..workers.channel import Message
from .drawn_reference import DrawnReference

OPTIONS = {
    "max_autotune": True,
    "max_autotune_gemm_backends": "TRITON,ATEN",
    "max_autotune_conv_backends": "TRITON,ATEN",
    "triton.cudagraphs": False,
    "triton.num_decompose_k_splits": 0,  # its products of parts have no template
    "triton.unique_kernel_names": True,
    "triton.descriptive_names": "torch",
    "assert_indirect_indexing": False,
    "graph_partition": False,
    "cpp_wrapper": False,
    "fx_graph_cache": False,
    "freezing": False,
}
"""Inductor's settings; those that a version does not know are left out."""
_FUNCTION = """
def _function(fn):
    from types import SimpleNamespace

    names = list(fn.__code__.co_varnames[: fn.__code__.co_argcount])
    return SimpleNamespace(fn=fn, arg_names=names, __name__=fn.__name__, src="", params=[])
"""
"""As much of a `triton.JITFunction` as Inductor's decorators look at."""
_HELPER = re.compile(r"\btriton_helpers\.(\w+)")


class InductorRequests:
    """Code that torch's compiler makes of the reference; each method serves the request of its name."""

    REQUESTS = ("generate",)

    def __init__(self, reference: DrawnReference) -> None:
        self._reference = reference

    def generate(self) -> Message:
        """Return as `code` the fields of a `GeneratedCode`, or as `obstacle` why there is none."""
        reference = self._reference
        reference.prepare(0)
        try:
            return {"code": generated(reference.model, reference.inputs), "obstacle": None}
        except Exception as error:  # of any part of the compiler
            return {"obstacle": first_line(f"{type(error).__name__}: {error}", 300)}
        finally:
            reference.release()


class _Taken(BaseException):
    """The code is there: nothing is loaded, and nothing runs."""


def generated(model: Any, inputs: Sequence[Any], options: Mapping[str, Any] = OPTIONS) -> Message:
    """Compile a model for inputs and return the code as fields of a `GeneratedCode`.

    With real inputs on a GPU the code runs once, in which Inductor measures the configs of its kernels. With fake ones
    the configs keep Inductor's order.
    """
    import torch
    import torch._inductor.config as config
    from torch._subclasses.fake_tensor import FakeTensor

    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    weights = weights_of(model)
    arguments = [*weights.values(), *tensors]
    graph, form = traced(model, weights, inputs)
    known = {name: value for name, value in options.items() if name in config._config}
    runs = bool(arguments) and all(one.is_cuda and not isinstance(one, FakeTensor) for one in arguments)
    with config.patch(known), templates_first():
        code, fastest = measured_code(graph, arguments) if runs else (code_of(graph, arguments), {})
    kernels = dict(kernel_texts(code))
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
    return _only(taken)


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
        with mock.patch.object(CachingAutotuner, "run", watched):
            compiled(list(arguments))
    torch.cuda.synchronize()
    return _only(taken), {name: config_of(kernel.launchers[0].config) for name, kernel in seen.items()}


def _only(taken: Sequence[str]) -> str:
    if len(taken) != 1:
        raise RuntimeError(f"torch's compiler made {len(taken)} modules")
    return taken[0]


def _ordered(configs: Iterator[dict[str, int]], fastest: dict[str, int] | None) -> list[dict[str, int]]:
    """Return the configs with the fastest one first."""
    known = list(configs)
    return known if fastest is None else [fastest, *(one for one in known if one != fastest)]


def config_of(config: Any) -> dict[str, int]:
    """Return a `triton.Config` as data."""
    return {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}


@contextlib.contextmanager
def templates_first() -> Iterator[None]:
    """Inside, Inductor chooses among Triton's templates wherever there is one, however fast the library is."""
    from torch._inductor.select_algorithm import AlgorithmSelectorCache, TritonTemplateCaller

    choose = AlgorithmSelectorCache.__call__

    def among_templates(self: Any, name: str, choices: Any, *args: Any, **kwargs: Any) -> Any:
        templates = [one for one in choices if isinstance(one, TritonTemplateCaller)]
        return choose(self, name, templates or choices, *args, **kwargs)

    with mock.patch.object(AlgorithmSelectorCache, "__call__", among_templates):
        yield


def traced(model: Any, weights: Mapping[str, Any], inputs: Sequence[Any]) -> tuple[Any, str]:
    """Return the model's graph, whose arguments are the weights and then the input tensors, and its result's form."""
    import torch
    from torch._inductor.decomposition import select_decomp_table
    from torch.fx.experimental.proxy_tensor import make_fx

    names, form = list(weights), ""

    def call(*flat: Any) -> Any:
        nonlocal form
        left = iter(flat[len(names) :])
        given = tuple(next(left) if isinstance(value, torch.Tensor) else value for value in inputs)
        result = torch.func.functional_call(model, dict(zip(names, flat, strict=False)), given)
        form = form_of(result)
        return list(result) if form != "tensor" else [result]

    flat = [*weights.values(), *(value for value in inputs if isinstance(value, torch.Tensor))]
    with torch.no_grad():
        # Without writes inside of the graph: those to weights come at its end.
        pure = torch.func.functionalize(call, remove="mutations")
        return make_fx(pure, decomposition_table=select_decomp_table(), tracing_mode="fake")(*flat), form


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
        joint_graph_passes(graph)
        return compile_fx_inner(graph, fake)


def kernel_texts(code: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of each Triton kernel in Inductor's code."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="triton"),
                args=[ast.Constant(value=str(name)), ast.Constant(value=str(text)), *_],
            ):
                yield name, text


def configs(text: str, name: str) -> Iterator[dict[str, int]]:
    """Yield the configs that Inductor would try for a kernel, the one that it would take unmeasured first."""
    module: dict[str, Any] = {"__file__": "kernel.py", "__name__": name}
    with mock.patch("torch._inductor.runtime.triton_helpers.set_driver_to_gpu", return_value=None):
        exec(compile(_with_lines(text), f"<{name}>", "exec"), module)
    for config in module[name].configs:
        yield config_of(config)


def _with_lines(text: str) -> str:
    """Return the text without `@triton.jit`, which needs a file to read the function from."""
    return f"{_FUNCTION}\n{text.replace('@triton.jit', '@_function')}"


def helpers(texts: Any) -> dict[str, str]:
    """Return the source of Inductor's helper functions that kernels call, by name, each after those that it calls."""
    from torch._inductor.runtime import triton_helpers

    found: dict[str, str] = {}

    def add(name: str) -> None:
        function = getattr(triton_helpers, name, None)
        source = getattr(function, "fn", None)
        if name in found or source is None:
            return
        text = inspect.getsource(source)
        for other in re.findall(r"\b(\w+)\b", text):
            if other != name and getattr(getattr(triton_helpers, other, None), "fn", None) is not None:
                add(other)
        found[name] = text

    for text in texts:
        for name in _HELPER.findall(text):
            add(name)
    return found
