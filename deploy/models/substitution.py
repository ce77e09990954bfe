"""Replaces regions by deployed operators: a pass of Inductor's, and the operator that it calls.

All entries share one operator, `kernelwright::region(str entry, Tensor[] inputs)`: code that torch.compile has in its
caches on disk names an entry, which a new process loads when it is first called.
"""

from __future__ import annotations

import contextlib
import hashlib
import operator
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch._guards import detect_fake_mode
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch._inductor.pattern_matcher import stable_topological_sort
from torch.fx import Graph, Node

from ...core.text import first_line
from .packages import load_operator
from .partition import NodeGroup, is_view, regions_of, sizes_that_change
from .reference import architecture
from .region import ModelRegion, UnwrittenRegionError, mark, written_region
from .store import RegionStore, StoreFile, version_of

if TYPE_CHECKING:
    from ..package.operators import DeployedOperator

_FILES = tuple(str(path) for path in sorted(Path(__file__).parent.glob("*.py")))


class LoadedEntries:
    """The entries that this process uses, and the store that they are from."""

    def __init__(self) -> None:
        self.store: RegionStore | None = None
        self._operators: dict[str, DeployedOperator] = {}
        self._failed: set[str] = set()
        self._loading = threading.RLock()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the entries in use, sorted."""
        return tuple(sorted({*self._operators} - self._failed))

    @property
    def digest(self) -> str:
        """Digest of their names: the same in all processes that chose the same entries."""
        return hashlib.sha256("\n".join(self.names).encode()).hexdigest()[:16]

    def load(self, file: StoreFile) -> DeployedOperator:
        """Return an entry's operator. Raises whatever loading it raises."""
        with self._loading:  # otherwise another thread could find an incomplete module
            if file.name not in self._operators:
                assert file.entry is not None
                self._operators[file.name] = load_operator(file.entry, file.name)
        return self._operators[file.name]

    def named(self, name: str) -> DeployedOperator:
        """Return the operator of an entry that compiled code names. Raises `RuntimeError` if it is gone."""
        if name not in self._operators:
            file = self.store.named(name) if self.store is not None else None
            if file is None or file.problem:
                why = file.problem if file is not None else "it is not in the store"
                raise RuntimeError(f"compiled code needs the entry {name}: {why}; set KERNELWRIGHT_DISABLE=1")
            self.load(file)
        return self._operators[name]

    def leave(self, name: str) -> None:
        """Do not count an entry as used: it does not fit its region."""
        self._failed.add(name)

    def call(self, name: str, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Compute a region. After a kernel's first failure, which warns, the reference computes."""
        found = self.named(name)
        if name not in self._failed:
            try:
                return _listed(found(*inputs))
            except Exception as error:
                self._failed.add(name)
                _warn(f"the kernel of the entry {name} failed ({first_line(error)}); plain torch computes the region")
        return _listed(found.by_reference(inputs))


LOADED = LoadedEntries()
"""The process's entries, where compiled code finds them."""
_LIBRARY = torch.library.Library("kernelwright", "FRAGMENT")
_LIBRARY.define("region(str entry, Tensor[] inputs) -> Tensor[]")
_LIBRARY.impl("region", LOADED.call, "CPU")
_LIBRARY.impl("region", LOADED.call, "CUDA")


@torch.library.register_fake("kernelwright::region", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _fake(entry: str, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return _listed(LOADED.named(entry).fake(*inputs))


class RegionPass(CustomGraphPass):  # type: ignore[misc]
    """Replaces regions that the store has. With `marks`, nodes carry their region's key for `shares.py`."""

    def __init__(self, store: RegionStore, marks: bool = False) -> None:
        self._store = store
        self._marks = marks
        LOADED.store = store

    def uuid(self) -> Any:
        """Return what compiled code depends on, for torch.compile's caches: this code, the store's entries, and what
        they are not used without.
        """
        here = [f"{name} {version_of(name)}" for name in ("torch", "triton", "tilelang")]
        return get_hash_for_files(_FILES, "\n".join([self._store.digest, architecture("cpu"), *here]))

    def __call__(self, graph: Graph) -> None:
        """Replace regions of a graph."""
        replaced = False
        if note := sizes_that_change(graph):
            _warn(note)
        for group in self._regions(graph):
            found = self._found(group)
            if found is not None:
                _replace(graph, *found, marks=self._marks)
                replaced = True
        if replaced:
            stable_topological_sort(graph)

    def _regions(self, graph: Graph) -> list[NodeGroup]:
        try:
            return regions_of(graph)
        except Exception as error:  # what cannot be parted is Inductor's
            _warn(f"a graph is left to Inductor: {first_line(error)}")
            return []

    def _found(self, group: NodeGroup) -> tuple[ModelRegion, str] | None:
        """Return a region and the name of the entry that serves it; None if Inductor has to."""
        try:
            region = written_region(group)
            if self._marks:
                mark(region.nodes, region.key)
            file = self._store.find(region.key)
        except UnwrittenRegionError:
            return None
        except Exception as error:
            _warn(f"a region is left to Inductor: {first_line(error)}")
            return None
        return (region, file.name) if file is not None and self._serves(file, region) else None

    def _serves(self, file: StoreFile, region: ModelRegion) -> bool:
        """Return whether an entry's operator loads, takes the region's inputs and returns its outputs."""
        inputs = [item.value for item in region.inputs]
        try:
            loaded = LOADED.load(file)
            reason = loaded.dispatch.rows[0].mismatch(inputs)
            with detect_fake_mode(inputs) or contextlib.nullcontext():  # which makes new tensors fake too
                made = [] if reason else _listed(loaded.fake(*inputs))
        except Exception as error:
            _warn(f"{file.path} is not used: {first_line(error)}")
            return False
        wanted = [item.value for item in region.outputs]
        same = [(item.shape, item.dtype) for item in made] == [(item.shape, item.dtype) for item in wanted]
        if not same:
            LOADED.leave(file.name)
            _warn(f"{file.path} is not used: its kernel is for other {reason or 'outputs'} than its problem says")
        return same


def _replace(graph: Graph, region: ModelRegion, entry: str, marks: bool) -> None:
    """Put a call of the operator where its last input is known; users of the outputs follow it."""
    known = {*(item.node for item in region.inputs), *(node for node in graph.nodes if node.op == "placeholder")}
    last = next(node for node in reversed(graph.nodes) if node in known)

    def call(target: Any, arguments: tuple[Any, ...], value: Any) -> Node:
        nonlocal last
        with graph.inserting_after(last):
            last = graph.call_function(target, arguments)
        last.meta["val"] = value
        if marks:
            mark([last], region.key)
        return last

    permute = torch.ops.aten.permute.default
    given = [
        item.node if item.order is None else call(permute, (item.node, list(item.order)), item.value)
        for item in region.inputs
    ]
    results = [item.value for item in region.outputs]
    made = call(torch.ops.kernelwright.region.default, (entry, given), results)
    for place, item in enumerate(region.outputs):
        part = call(operator.getitem, (made, place), results[place])
        if item.order is not None:
            part = call(permute, (part, item.back), item.node.meta["val"])
        item.node.replace_all_uses_with(part)
    left = set(region.nodes)
    for node in reversed(graph.nodes):
        if not node.users and (node in left or is_view(node)):
            graph.erase_node(node)


def _listed(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, tuple | list) else [result]


def _warn(text: str) -> None:
    warnings.warn(f"kernelwright: {text}", stacklevel=2)
