"""Torch's compiler at work on a model: traced, compiled, its choices and configs measured."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..languages.base import replaced
from ..settings import Lowering
from ..workers.modules import form_of
from .decompositions.table import decompositions, only_pointwise
from .inductor_kernels import config_of, kernel_texts

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
OF_LOWERING: Mapping[Lowering, Mapping[str, Any]] = {
    Lowering.TEMPLATES: {},
    # With templates among the choices Inductor measures all of them, which keeps others off the device for long.
    Lowering.LIBRARY: {"max_autotune_conv_backends": "ATEN"},
    Lowering.LIBRARY_AS_GIVEN: {"max_autotune_conv_backends": "ATEN", "layout_optimization": False},
    Lowering.AS_COMPILED: {"max_autotune": False, "max_autotune_pointwise": True},
}
"""Further settings."""


class _CodeTakenError(BaseException):
    """The code is there: nothing is loaded, and nothing runs."""


def arguments_of(weights: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
    """Return the arguments of a graph: the weights, then the tensors among the inputs."""
    import torch

    return [*weights.values(), *(value for value in inputs if isinstance(value, torch.Tensor))]


def on_gpu(arguments: Sequence[Any]) -> bool:
    """Return whether these are real tensors on a GPU."""
    from torch._subclasses.fake_tensor import FakeTensor

    return bool(arguments) and all(argument.is_cuda and not isinstance(argument, FakeTensor) for argument in arguments)


@contextlib.contextmanager
def settings(lowering: Lowering) -> Iterator[None]:
    """Inside, Inductor has ours."""
    from torch._inductor import config

    wanted = {**OPTIONS, **OF_LOWERING[lowering]}
    with config.patch({name: value for name, value in wanted.items() if name in config._config}):
        yield


def code_of(graph: Any, arguments: Sequence[Any]) -> str:
    """Return Inductor's code of a graph, which is neither loaded nor run."""
    from torch._inductor.graph import GraphLowering

    taken: list[str] = []

    def take(code: str) -> None:
        taken.append(code)
        raise _CodeTakenError

    with (
        replaced(GraphLowering, "save_output_code", lambda _: staticmethod(take)),
        contextlib.suppress(_CodeTakenError),
    ):
        lowered(graph, arguments)
    if not taken:
        raise RuntimeError("torch's compiler made no code")
    return taken[0]


class Compiled(NamedTuple):
    """Inductor's code of a graph, and the function of a list of its arguments that runs it."""

    code: str
    run: Callable[[list[Any]], Any]


def compiled_code(graph: Any, arguments: Sequence[Any]) -> Compiled:
    """Compile a graph with Inductor."""
    from torch._inductor.graph import GraphLowering

    taken: list[str] = []
    with replaced(GraphLowering, "save_output_code", lambda _: staticmethod(taken.append)):
        run = lowered(graph, arguments)
    return Compiled(taken[-1], run)  # a choice that is a graph of its own, and was measured, comes before


def fastest_configs(compiled: Compiled, arguments: Sequence[Any]) -> dict[str, dict[str, int]]:
    """Run Inductor's code once; return by kernel the config that was the fastest."""
    import torch
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    if not any(kernel_texts(compiled.code)):
        return {}  # a library alone may take minutes in a layout of the compiler's choice
    seen: dict[str, Any] = {}

    def watched(run: Any) -> Any:
        def watch(self: Any, *args: Any, **kwargs: Any) -> Any:
            seen[self.fn.__name__] = self
            return run(self, *args, **kwargs)

        return watch

    with replaced(CachingAutotuner, "run", watched), torch.no_grad():
        compiled.run(list(arguments))
    torch.cuda.synchronize()
    return {name: config_of(kernel.launchers[0].config) for name, kernel in seen.items()}


def among_templates(choices: list[Any]) -> list[Any]:
    """Return Triton's templates, however fast the library is, where there is one: its call is nothing to optimize."""
    from torch._inductor.select_algorithm import TritonTemplateCaller

    return [choice for choice in choices if isinstance(choice, TritonTemplateCaller)] or choices


def only_one(choices: list[Any]) -> list[Any]:
    """Return the only choice; raise `BenchmarkRefusedError` where several would be measured."""
    if len(choices) > 1:
        raise BenchmarkRefusedError("choices have to be measured")
    return choices


@contextlib.contextmanager
def chosen(among: Callable[[list[Any]], list[Any]]) -> Iterator[None]:
    """Inside, Inductor chooses among what the function leaves of an operator's choices."""
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    def among_these(choose: Any) -> Any:
        return lambda self, name, choices, *args, **kwargs: choose(self, name, among(choices), *args, **kwargs)

    with replaced(AlgorithmSelectorCache, "__call__", among_these):
        yield


def traced(
    model: Any, weights: Mapping[str, Any], inputs: Sequence[Any], lowering: Lowering = Lowering.TEMPLATES
) -> tuple[Any, str]:
    """Return the model's graph, whose arguments are the weights and then the input tensors, and its result's form.

    Where the library may compute convolutions they are as it has them (`decompositions`), unless all have one tap
    (`only_pointwise`).
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
        graph = make_fx(pure, decomposition_table=decompositions(lowering), tracing_mode="fake")(*flat)
        if lowering.in_library and only_pointwise(graph):
            graph = make_fx(pure, decomposition_table=decompositions(), tracing_mode="fake")(*flat)
        return graph, form


def lowered(graph: Any, arguments: Sequence[Any]) -> Any:
    """Compile a graph with Inductor; return the compiled function of a list of the arguments."""
    import torch
    from torch._guards import TracingContext, detect_fake_mode, tracing
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.fx_passes.joint_graph import joint_graph_passes
    from torch._subclasses.fake_tensor import FakeTensorMode

    traced_with = [node.meta.get("val") for node in graph.graph.find_nodes(op="placeholder")]
    mode = detect_fake_mode(traced_with) or FakeTensorMode()  # another than the graph's own does not mix with it
    fake = [mode.from_tensor(argument, static_shapes=True) for argument in arguments]
    with tracing(TracingContext(mode)), torch.no_grad():
        with mode:  # a pattern's own constants are fake too
            joint_graph_passes(graph)
        (output,) = graph.graph.find_nodes(op="output")
        output.meta["user_visible_output_idxs"] = list(range(len(output.args[0])))  # else their strides are padded
        return compile_fx_inner(graph, fake, is_inference=True)  # whose layouts torch.compile uses without gradients


class BenchmarkRefusedError(Exception):
    """Compiling ahead would use the device, on which others may measure."""


@contextlib.contextmanager
def without_benchmarks() -> Iterator[None]:
    """Make Inductor's benchmarks raise `BenchmarkRefusedError`: of templates, of padded products, and others."""
    from torch._inductor.runtime.benchmarking import benchmarker

    def refuse(*_: Any, **__: Any) -> Any:
        raise BenchmarkRefusedError("others may be measuring")

    names = [name for name in dir(benchmarker) if name.startswith("benchmark")]
    vars(benchmarker).update(dict.fromkeys(names, refuse))
    try:
        yield
    finally:
        for name in names:
            delattr(benchmarker, name)
