"""Records the regions of a model that run: each as a problem file, with counts and statistics of its inputs.

The first call of a compiled graph is also interpreted, to observe its values; no data are kept.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.fx import Graph, GraphModule, Interpreter, Node

from ...core import ResultsError
from ...core.files import write_whole
from ...core.text import first_line
from .partition import regions_of
from .reference import CALLS, SHARE
from .region import ModelRegion, UnwrittenRegionError, mark, problem_source, written_region
from .shares import StepProfiler, step_profiler
from .statistics import TensorStatistics
from .steps import StepShares


@dataclass
class RecordedRegion:
    """A region that ran, counted once for all its places in the model."""

    region: ModelRegion
    calls: int = 0
    """How often it ran."""
    places: int = 0
    """In how many places of all graphs it is."""
    shared: bool = False
    """Whether it was there when shares of a step were taken."""
    inputs: list[TensorStatistics | None] = field(default_factory=list)
    """Statistics of its inputs in its first place; None for inputs that were not seen."""

    def source(self, shares: StepShares | None) -> str:
        """Return its problem file."""
        where = "one place" if self.places == 1 else f"{self.places} places"
        about = [f"It ran {self.calls} times, in {where} of the model's graphs."]
        drawn = [item.expression if item is not None else None for item in self.inputs]
        figures = [f"{CALLS} = {self.calls}"]
        if shares is not None and self.shared:
            took = shares.regions.get(self.region.key, 0.0)
            about.append(f"It took {took:.3g} ms of a step of {shares.step_ms:.3g} ms, with Inductor's code.")
            figures.append(f"{SHARE} = {took / shares.step_ms:.4g}")
        return problem_source(self.region, about, drawn) + "\n\n" + "\n".join(figures) + "\n"


class RegionRecorder:
    """Records the regions of one process for a folder."""

    def __init__(self, folder: Path, profiler: StepProfiler) -> None:
        self.folder = folder
        self.shares: StepShares | None = None
        """Shares of a step by region; None until some steps were repeated."""
        self._profiler = profiler
        profiler.tell(self._profiled)
        self.regions: dict[str, RecordedRegion] = {}
        self.left: dict[str, int] = {}
        """Reasons why regions could not be written, with how many there are."""
        self._warned = False
        self._collected: list[Graph] = []

    def inner_compile(self, graph_module: Any, example_inputs: Sequence[Any], **options: Any) -> Any:
        """Compile a graph as Inductor does, and record its calls. The pass of `collecting` must be among its passes."""
        self._collected.clear()
        compiled = self._profiler.inner_compile(graph_module, example_inputs, **options)
        if not self._collected:
            return compiled
        graph = GraphModule(graph_module, self._collected.pop())
        found = self._entered(graph.graph)
        first = True

        def call(arguments: list[Any]) -> Any:
            nonlocal first
            if first:
                first = False
                self._observe(graph, found, list(arguments))
                self.write()
            for recorded, _ in found:
                recorded.calls += 1
            return compiled(arguments)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    @property
    def collecting(self) -> CustomGraphPass:
        """The pass that shows graphs to the recorder."""
        return _Collecting(self._keep)

    def write(self) -> None:
        """Write all problem files. A failure warns once, and the model runs on."""
        try:
            for key, recorded in self.regions.items():
                write_whole(
                    self.folder / f"region_{key[:16]}.py",
                    recorded.source(self.shares),
                    "choose another KERNELWRIGHT_RECORD",
                )
        except ResultsError as error:
            if not self._warned:
                warnings.warn(f"kernelwright: nothing is recorded: {error}", stacklevel=2)
            self._warned = True

    def _profiled(self, shares: StepShares) -> None:
        self.shares = shares
        for recorded in self.regions.values():
            recorded.shared = True
        self.write()

    def _keep(self, graph: Graph) -> None:
        for group in regions_of(graph):
            with contextlib.suppress(UnwrittenRegionError):
                mark(group.nodes, written_region(group).key)
        self._collected.append(copy.deepcopy(graph))

    def _entered(self, graph: Graph) -> list[tuple[RecordedRegion, ModelRegion]]:
        found = []
        for group in regions_of(graph):
            try:
                region = written_region(group)
            except UnwrittenRegionError as reason:
                self.left[str(reason)] = self.left.get(str(reason), 0) + 1
                continue
            recorded = self.regions.setdefault(region.key, RecordedRegion(region))
            recorded.places += 1
            found.append((recorded, region))
        return found

    def _observe(
        self, graph: GraphModule, found: Sequence[tuple[RecordedRegion, ModelRegion]], arguments: list[Any]
    ) -> None:
        new = [(recorded, region) for recorded, region in found if not recorded.inputs]
        gpus = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=gpus):
                seen = _Observer(graph, {item.node: item for _, region in new for item in region.inputs})
                seen.run(*arguments)
        except Exception as error:
            warnings.warn(f"kernelwright: values were not looked at ({first_line(error)})", stacklevel=2)
            return
        for recorded, region in new:
            if not recorded.inputs:
                recorded.inputs = [seen.statistics.get(item.node) for item in region.inputs]


class _Collecting(CustomGraphPass):  # type: ignore[misc]
    def __init__(self, keep: Callable[[Graph], None]) -> None:
        self._keep = keep

    def __call__(self, graph: Graph) -> None:
        self._keep(graph)

    def uuid(self) -> Any:
        return None  # compiled code that is recorded enters no cache


class _Observer(Interpreter):  # type: ignore[misc]
    """Runs a graph without writing to its inputs, and looks at some values."""

    def __init__(self, graph: GraphModule, wanted: dict[Node, Any]) -> None:
        super().__init__(graph)
        self._wanted = wanted
        self.statistics: dict[Node, TensorStatistics] = {}

    def run_node(self, n: Node) -> Any:
        """Run one node. Writes to arguments are left out, and so are operators that may do more than compute (of
        other packages, messages to other processes), with everything that depends on them.
        """
        if n.op == "output" or any(self.env.get(item) is _UNSEEN for item in n.all_input_nodes):
            return _UNSEEN
        target = n.target
        if n.op == "call_function" and isinstance(target, torch._ops.OperatorBase):
            if not isinstance(target, torch._ops.OpOverload) or target.namespace not in ("aten", "prims"):
                return _UNSEEN
            if target._schema.is_mutable:
                return self.fetch_args_kwargs_from_env(n)[0][0]
        result = super().run_node(n)
        if n in self._wanted and isinstance(result, torch.Tensor):
            self.statistics[n] = TensorStatistics.of(result, self._wanted[n].order)
        return result


_UNSEEN = object()
"""In the place of a value that is not computed."""


@lru_cache(maxsize=1)
def recorder_for(folder: Path) -> RegionRecorder:
    """Return the recorder of this process, which writes again when Python ends."""
    recorder = RegionRecorder(folder, step_profiler())
    atexit.register(recorder.write)
    return recorder
