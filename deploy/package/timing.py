"""Times of one call: of Python alone, within a CUDA graph, and under torch.compile."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .checks import arguments_at, here, sizes_of
from .operators import DeployedOperator

_NUMBERS = itertools.count()
CALLS = 100
"""Calls of one sample; times are medians of `SAMPLES`."""
BEHIND = 20
"""Calls while the GPU is behind: more launches could fill CUDA's queue, and Python would wait for the GPU."""
SAMPLES = 15


@dataclass(frozen=True)
class CallTimes:
    """Microseconds of one call at one set of sizes; None for times that do not exist.

    On a GPU `host` is the time of the Python thread while the GPU is behind, and `call` the time from call to result.
    On a CPU both are the same.
    """

    what: str
    """'operator', 'reference' or 'empty': an operator that only makes the outputs."""
    sizes: str
    call_us: float
    host_us: float
    graph_us: float | None = None
    compiled_us: float | None = None

    def __str__(self) -> str:
        graph = "" if self.graph_us is None else f", in a CUDA graph {self.graph_us:.1f}"
        compiled = "" if self.compiled_us is None else f", compiled {self.compiled_us:.1f}"
        return (
            f"{self.what} at {self.sizes}: {self.call_us:.1f} us a call, {self.host_us:.1f} of Python{graph}{compiled}"
        )


def measure(
    operator: DeployedOperator, call: Any, compiled: bool = True, at: Sequence[dict[str, Any]] = ()
) -> list[CallTimes]:
    """Time the operator, the reference in eager torch and an empty operator, at the sizes of every row whose device is
    here, or instead `at` others, which need not be served by a kernel.
    """
    found = []
    rows = [row for row in operator.dispatch.rows if here(row)]
    pairs = [(row, sizes) for row in rows for sizes in sizes_of(row)]
    if at:
        pairs = [(row, {**row.sizes, **sizes}) for row in rows[:1] for sizes in at]
    for row, sizes in pairs:
        arguments = arguments_at(operator, row, sizes, 0)
        count = len(arguments) - len(operator.weights)
        bound = operator.modules.reference(row.sizes, row.device)
        text = ", ".join(f"{name}={value}" for name, value in sizes.items()) or "the reference's sizes"

        def reference(*given: Any, bound: Any = bound, count: int = count) -> Any:
            return bound(given[:count], given[count:])

        model = operator.modules.model(row.sizes, row.device)

        def compiled_reference(*given: Any, model: Any = model, count: int = count) -> Any:
            return model(*given[:count])

        tried = [
            ("operator", call, call if compiled else None),
            ("reference", reference, compiled_reference if compiled else None),
            ("empty", _empty_operator(operator, arguments), None),
        ]
        with torch.no_grad():
            found += [_times(what, text, row.device == "cuda", arguments, *functions) for what, *functions in tried]
    return found


def _times(what: str, sizes: str, gpu: bool, arguments: list[Any], function: Any, to_compile: Any) -> CallTimes:
    call = _sample(lambda: function(*arguments), gpu)
    host = _host(lambda: function(*arguments)) if gpu else call
    graph = _in_graph(lambda: function(*arguments)) if gpu else None
    faster = None
    if to_compile is not None:
        torch.compiler.reset()
        wrapped = torch.compile(lambda *given: to_compile(*given), fullgraph=what == "operator")
        wrapped(*arguments)
        faster = _sample(lambda: wrapped(*arguments), gpu)
    return CallTimes(what, sizes, call, host, graph, faster)


def _sample(run: Callable[[], Any], gpu: bool) -> float:
    """Return microseconds of a call, by a clock around many of them that ends when the last one has ended."""
    wait = torch.cuda.synchronize if gpu else lambda: None
    run()
    wait()
    begin = time.perf_counter()
    run()
    wait()
    calls = max(1, min(CALLS, int(0.02 / max(time.perf_counter() - begin, 1e-7))))
    samples = []
    for _ in range(SAMPLES):
        begin = time.perf_counter()
        for _ in range(calls):
            run()
        wait()
        samples.append((time.perf_counter() - begin) / calls * 1e6)
    return statistics.median(samples)


def _host(run: Callable[[], Any]) -> float:
    """Return microseconds that a call takes of Python, while the GPU is kept behind."""
    samples = []
    for _ in range(SAMPLES):
        torch.cuda.synchronize()
        torch.cuda._sleep(50_000_000)
        begin = time.perf_counter()
        for _ in range(BEHIND):
            run()
        samples.append((time.perf_counter() - begin) / BEHIND * 1e6)
        torch.cuda.synchronize()
    return statistics.median(samples)


def _in_graph(run: Callable[[], Any]) -> float:
    """Return microseconds of a call within a CUDA graph of ten."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            run()
    return _sample(graph.replay, True) / 10


def _empty_operator(operator: DeployedOperator, arguments: list[Any]) -> Any:
    """Return an operator of the same signature, registered alike, that makes these outputs and computes nothing."""
    _, schema = str(operator.schema).split("(", 1)
    result = operator.fake(*arguments)
    made = [(item.shape, item.dtype, item.device) for item in (result if isinstance(result, tuple) else [result])]

    def empty(*_: Any) -> Any:
        outputs = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype, device in made]
        return tuple(outputs) if isinstance(result, tuple) else outputs[0]

    name = f"{operator.name}_empty_{next(_NUMBERS)}"
    return torch.library.custom_op(name, empty, mutates_args=(), schema=f"({schema}")
