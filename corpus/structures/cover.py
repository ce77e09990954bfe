"""Covers a graph by structures, or calls of torch if none fits, with the least cost by the roofline.

A cut is a value that is written to memory. With all values cut, each operator has its own kernel; the cover drops
the cuts that cost more than they save, first those that structures name, then each alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ...core.dynamic_size import UndecidedSizeError, typical
from ...core.operator_graph import INPUT, WEIGHT, GraphValue, OperatorGraph
from .catalogue import STRUCTURES
from .elementwise import FLOATS
from .emitter import RefusedError, is_inlinable
from .region import Region, Structure, WrittenKernel
from .views import base_of, is_creation, is_view, split_of

BYTES_PER_S, PRODUCTS_PER_S, SCALARS_PER_S = 3e12, 5e14, 2e13
"""An H100's, rounded: covers differ by more than the devices that they are for."""
LAUNCH_S, CALL_S = 3e-6, 1e-3
"""Seconds of a kernel's launch, and of a call of torch, which is chosen only if no structure fits."""
_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "bfloat16": 2, "float16": 2, "int16": 2, "complex64": 8}
_SWEEPS = 4


@dataclass(frozen=True)
class CoverStep:
    """One kernel, or one call of torch."""

    region: Region
    kernel: WrittenKernel | None
    reason: str = ""
    """Why torch computes it, if there is no kernel."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Values that must be in memory before."""
        graph = self.region.graph
        if self.kernel is not None:
            return tuple(name for name in self.kernel.touched if name not in self.kernel.stored)
        return tuple(dict.fromkeys(base_of(graph, name) for name in self.region.value.operands))


class GraphCover:
    """The search for the cheapest cover of one graph."""

    def __init__(self, graph: OperatorGraph, structures: Sequence[Structure] = STRUCTURES) -> None:
        self.graph = graph
        self._structures = structures
        self._known: dict[tuple[str, frozenset[str], tuple[str, ...]], CoverStep | None] = {}
        self.cuts = {value.name for value in graph.values if self._computes(value)} & self._needed

    def _computes(self, value: GraphValue) -> bool:
        """Return whether a value has its own kernel, or its own call of torch, when it is cut."""
        if value.operator in (INPUT, WEIGHT, "getitem"):
            return False
        return not is_view(self.graph, value) and not is_creation(value)

    @cached_property
    def _needed(self) -> frozenset[str]:
        """Values that the results follow from."""
        return self.graph.ancestors(self.graph.outputs)

    @cached_property
    def _kept(self) -> frozenset[str]:
        """Values that are always in memory: results, and those of several tensors."""
        bases = {self._owner(base_of(self.graph, name)) for name in self.graph.outputs}
        return frozenset(bases | {name for name in self.cuts if len(self.graph.by_name[name].shapes) != 1})

    def _owner(self, name: str) -> str:
        """Return the operation that makes a value; for one of several results, the operation with all of them."""
        value = self.graph.by_name[name]
        return value.operands[0] if value.operator == "getitem" and split_of(self.graph, value) is None else name

    def steps(self) -> list[CoverStep]:
        """Return the cheapest cover found, in an order in which it can run. Raises `RefusedError` if there is none."""
        for value in self.graph.values:
            if value.name in self.cuts and self._is_mask(value):
                self._drop(frozenset({value.name}), always=True)
        for structure in self._structures:
            for seed in structure.seeds(self.graph):
                self._drop(seed & self.cuts)
        for _ in range(_SWEEPS):
            before = len(self.cuts)
            for value in self.graph.values:
                if value.name in self.cuts:
                    self._drop(frozenset({value.name}))
            if len(self.cuts) == before:
                break
        steps = {root: step for root in self.cuts if (step := self._step(root)) is not None}
        self._join(steps)
        return self._ordered(list(steps.values()))

    def _inlined(self, root: str) -> frozenset[str]:
        """Return the values that the kernel of a root computes."""
        found, left = {root}, list(self.graph.by_name[root].operands)
        while left:
            name = left.pop()
            value = self.graph.by_name[name]
            if self._computes(value):
                if name in self.cuts or name in found:
                    continue
                found.add(name)
            elif value.operator in (INPUT, WEIGHT) or (value.operator == "getitem" and not is_view(self.graph, value)):
                continue
            left += value.operands
        return frozenset(found)

    def _readers(self, names: Iterable[str]) -> set[str]:
        """Return the roots whose kernels read one of these values, or would compute it."""
        found, seen, left = set[str](), set[str](), list(names)
        while left:
            for user in self.graph.users[left.pop()]:
                if user in seen or user not in self._needed:
                    continue
                seen.add(user)
                if user in self.cuts:
                    found.add(user)
                else:
                    left.append(user)
        return found

    def _is_mask(self, value: GraphValue) -> bool:
        """Return whether a value is a flag or an integer that follows from indices alone and need not be loaded."""
        values = [self.graph.by_name[name] for name in self.graph.ancestors([value.name])]
        return value.dtype not in FLOATS and all(is_inlinable(self.graph, item) for item in values)

    def _drop(self, names: frozenset[str], always: bool = False) -> None:
        """Keep these values out of memory if that is cheaper, or wherever it is possible."""
        names -= self._kept
        if not names:
            return
        affected = self._readers(names) | set(names)
        before = [self._step(root) for root in affected]
        self.cuts -= names
        after = [self._step(root) for root in affected - names]
        possible = [step for step in after if step is not None]
        cheaper = always or _total(possible) < _total(before)
        if len(possible) < len(after) or not cheaper:
            self.cuts |= names

    def _step(self, root: str, stores: tuple[str, ...] = (), extra: frozenset[str] = frozenset()) -> CoverStep | None:
        """Return the kernel or the call of a root, or None."""
        inlined = self._inlined(root) | extra
        key = root, inlined, stores
        if key not in self._known:
            self._known[key] = self._made(Region(self.graph, root, inlined, stores))
        return self._known[key]

    def _made(self, region: Region) -> CoverStep | None:
        reason = f"no structure has {region.value.operator}"
        for structure in self._structures:
            if not all(
                is_inlinable(self.graph, value) or structure.anchors(self.graph, value)
                for value in region.topological()
            ):
                continue
            try:
                return CoverStep(region, structure.write(region))
            except (RefusedError, UndecidedSizeError) as refused:
                reason = f"{structure.name}: {refused}"
        return CoverStep(region, None, reason) if region.inlined == {region.root} and not region.stores else None

    def _join(self, steps: dict[str, CoverStep]) -> None:
        """Let kernels over the same rows store values that have kernels of their own, where they can."""
        for root in [value.name for value in self.graph.values if value.name in steps][::-1]:
            for other in [value.name for value in self.graph.values if value.name in steps][::-1]:
                if root == other or root not in steps or not self._shares(steps[other], steps[root]):
                    continue
                self._join_two(steps, root, other)

    def _shares(self, first: CoverStep, second: CoverStep) -> bool:
        if first.kernel is None or second.kernel is None:
            return False
        if not {first.kernel.structure, second.kernel.structure} <= {"rows", "pointwise", "products"}:
            return False
        large = max((typical(self.graph.by_name[name].size) for name in second.reads), default=0)
        common = {*first.reads, *first.kernel.stored} & {*second.reads}
        return any(typical(self.graph.by_name[name].size) * 2 > large for name in common)

    def _join_two(self, steps: dict[str, CoverStep], root: str, other: str) -> None:
        first, second = steps[other], steps[root]
        rest = [step for name, step in steps.items() if name not in (root, other)]
        if _between(rest, first, second) or _between(rest, second, first):
            return
        stores = (*second.region.stores, *first.region.stores, other)
        joined = self._step(root, stores, first.region.inlined | second.region.inlined)
        if joined is not None and joined.kernel is not None and cost(joined) < cost(first) + cost(second):
            steps[root] = joined
            del steps[other]

    def _ordered(self, steps: list[CoverStep]) -> list[CoverStep]:
        """Return the steps so that each comes after those whose values it reads, kernels numbered."""
        available = {value.name for value in self.graph.values if value.operator in (INPUT, WEIGHT)}
        available |= {value.name for value in self.graph.values if is_creation(value)}
        place = {value.name: number for number, value in enumerate(self.graph.values)}
        left, found = sorted(steps, key=lambda step: place[step.region.root]), list[CoverStep]()
        while left:
            ready = next((step for step in left if all(self._is_there(name, available) for name in step.reads)), None)
            if ready is None:
                raise RefusedError("kernels that need each other")
            left.remove(ready)
            available |= {*ready.region.stored}
            found.append(self._numbered(ready, sum(step.kernel is not None for step in found)))
        return found

    def _is_there(self, name: str, available: set[str]) -> bool:
        return name in available or self._owner(name) in available

    def _numbered(self, step: CoverStep, number: int) -> CoverStep:
        if step.kernel is None:
            return step
        region = replace(step.region, number=number)
        (structure,) = (item for item in self._structures if item.name == step.kernel.structure)
        return CoverStep(region, structure.write(region))


def _total(steps: Iterable[CoverStep | None]) -> float:
    return sum(cost(step) for step in steps if step is not None)


def cost(step: CoverStep) -> float:
    """Return an estimate of a step's seconds: the roofline's, and a launch."""
    graph = step.region.graph
    if step.kernel is None:
        return CALL_S
    kernel = step.kernel
    read = sum(_bytes(graph, name) for name in step.reads)
    moved = kernel.work.passes * read + sum(_bytes(graph, name) for name in kernel.stored)
    computing = kernel.work.scalar / SCALARS_PER_S + kernel.work.products / PRODUCTS_PER_S
    return kernel.launches * LAUNCH_S + max(moved / BYTES_PER_S, computing) + 0.1 * min(moved / BYTES_PER_S, computing)


def _bytes(graph: OperatorGraph, name: str) -> int:
    value = graph.by_name[name]
    return typical(value.size) * _BYTES.get(value.dtype, 1)


def _between(steps: Sequence[CoverStep], first: CoverStep, second: CoverStep) -> bool:
    """Return whether the second step needs values that others compute from the first one's results."""
    made, changed = {*first.region.stored}, True
    own = set(made)
    while changed:
        new = {name for step in steps if {*step.reads} & made for name in step.region.stored} - made
        changed = bool(new)
        made |= new
    return bool({*second.reads} & (made - own))
