"""Parts of a graph that one kernel computes, and kernels as structures write them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from string import Template

from ...core.devices.nvidia import HOPPER
from ...core.dynamic_size import typical
from ...core.operator_graph import GraphValue, OperatorGraph
from .emitter import Emitter

WARPS, STAGES = "num_warps", "num_stages"
SPLITS = "SPLITS"
"""The number of programs that share one result, if a structure can divide it."""
MULTIPROCESSORS = HOPPER.card.multiprocessors
"""An H100's."""
SHARED_BYTES = HOPPER.block_shared_bytes
"""Bytes of an H100's shared memory that a program may use."""


@dataclass(frozen=True)
class Region:
    """The values that one kernel computes."""

    graph: OperatorGraph
    root: str
    """The value that the kernel is for."""
    inlined: frozenset[str]
    """Values that it computes, the root among them; it loads all others."""
    stores: tuple[str, ...] = ()
    """Further values among these that it stores, since other kernels need them."""
    number: int = 0
    """Its place in the file."""

    @property
    def value(self) -> GraphValue:
        """The root."""
        return self.graph.by_name[self.root]

    @property
    def stored(self) -> tuple[str, ...]:
        """All values that the kernel stores."""
        return (*self.stores, self.root)

    def topological(self) -> list[GraphValue]:
        """Return the values that the kernel computes, in the graph's order."""
        return [value for value in self.graph.values if value.name in self.inlined]


@dataclass(frozen=True)
class LaunchParameter:
    """A constant of a launch: its start and its choices."""

    start: int | str
    choices: tuple[int | str, ...]


@dataclass(frozen=True)
class KernelWork:
    """A kernel's operations and bytes, for the cost of a cover."""

    scalar: float
    """Operations on single elements."""
    products: float = 0.0
    """Floating-point operations on tensor cores."""
    passes: float = 1.0
    """How often it reads its tensors."""


@dataclass(frozen=True)
class Scratch:
    """A buffer of floats of 32 bits that the first launch of a kernel leaves to the second."""

    name: str
    shape: tuple[str, ...]
    """Of each dimension, an expression over the parameters."""


@dataclass(frozen=True)
class SecondLaunch:
    """Combines, in a fixed order, the parts of one result that the programs of a first launch computed."""

    name: str
    source: str
    """A `@triton.jit` function. Its arguments are pointers, then the parameters."""
    buffers: tuple[str, ...]
    grid: tuple[str, ...]
    parameters: Mapping[str, LaunchParameter]
    """Parameters of this launch only."""
    scratch: tuple[Scratch, ...]
    shared: tuple[str, ...] = (SPLITS,)
    """Parameters that it shares with the first launch."""
    condition: str = f"{SPLITS} > 1"
    """Over the parameters: whether it is needed."""


@dataclass(frozen=True)
class WrittenKernel:
    """A kernel, and how it is launched."""

    structure: str
    name: str
    source: str
    """A `@triton.jit` function. Its arguments are pointers, then the parameters that are no options of a launch."""
    buffers: tuple[str, ...]
    """Values that the pointers stand for, in order."""
    stored: tuple[str, ...]
    """Those of them that it writes."""
    grid: tuple[str, ...]
    """Of each dimension, an expression over the parameters."""
    parameters: Mapping[str, LaunchParameter]
    work: KernelWork
    constraints: Sequence[str] = ()
    """Over the parameters."""
    configs: Sequence[Mapping[str, int | str]] = ()
    """Further starts."""
    second: SecondLaunch | None = None

    @property
    def touched(self) -> tuple[str, ...]:
        """Values that its launches load or store."""
        second = self.second
        if second is None:
            return self.buffers
        own = {item.name for item in second.scratch}
        return tuple(name for name in dict.fromkeys((*self.buffers, *second.buffers)) if name not in own)

    @property
    def launches(self) -> int:
        """How many there are at the start of the space."""
        return 1 + (self.second is not None and self.parameters[SPLITS].start != 1)


Write = Callable[[Region], WrittenKernel]


@dataclass(frozen=True)
class Structure:
    """A pattern on the graph with its template."""

    name: str
    write: Write
    """Writes the kernel of a region; raises `RefusedError` if the structure does not fit."""
    anchors: Callable[[OperatorGraph, GraphValue], bool]
    """Whether a value can be computed within a kernel by this structure, though it is not element-wise."""
    seeds: Callable[[OperatorGraph], Iterable[frozenset[str]]] = field(default=lambda graph: ())
    """Sets of values that pay off only if all are in one kernel."""
    dynamic: bool = False
    """Whether it takes sizes that are free within a range."""
    in_library: bool = False
    """Whether torch's library has kernels for its operators, which may be faster."""


def filled(template: str, emitter: Emitter, lines: Mapping[str, Sequence[str]], **texts: object) -> str:
    """Return a template with its holes filled: lines where `$name` stands alone, texts elsewhere."""
    found: list[str] = []
    for line in template.strip("\n").splitlines():
        hole = line.strip().removeprefix("$")
        if line.strip().startswith("$") and hole in lines:
            indent = line[: len(line) - len(line.lstrip())]
            found += [f"{indent}{inner}" for inner in lines[hole]]
        else:
            wide = ".to(tl.int64)" if emitter.wide else ""
            found.append(Template(line).safe_substitute({"wide": wide, **texts}))
    kept = _without_unused(found)
    free = emitter.graph.free
    sizes = [free.argument] if free and any(re.search(rf"\b{free.argument}\b", line) for line in kept) else []
    pointers = ", ".join([*emitter.buffers.values(), *sizes])
    return "\n".join(Template(line).substitute(pointers=pointers) for line in kept)


def _without_unused(lines: Sequence[str]) -> list[str]:
    """Return lines without assignments to variables of the emitter that nothing reads."""
    used = Counter(name for line in lines for name in re.findall(r"\bv\d+\b", line))
    kept = [line for line in lines if not ((found := re.match(r" *(v\d+) = ", line)) and used[found[1]] == 1)]
    return kept if len(kept) == len(lines) else _without_unused(kept)


def kernel_name(region: Region, structure: str) -> str:
    """Return a kernel's name, made from its operators."""
    skipped = {"sub", "view", "clone", "where", "to_copy", "add", "mul", "div", "permute", "expand", "neg", "full"}
    named = [value.operator.split(".")[1].strip("_") for value in region.topological() if "." in value.operator]
    words = list(dict.fromkeys(name for name in named if name not in skipped)) or list(dict.fromkeys(named))
    return "_".join([structure, *words[:5], str(region.number)])


def spanning(lines: Sequence[str], names: Iterable[str]) -> int:
    """Return the number of lines that are computed for each element of a tile: they follow from these names."""
    found, count = set(names), 0
    for line in lines:
        variable, _, text = line.strip().partition(" = ")
        if found & set(re.findall(r"[A-Za-z_]\w*", text)):
            count += 1
            if not text.startswith(("tl.sum(", "tl.max(", "tl.min(", "tl.reduce(")):
                found.add(variable)
    return count


def powers(least: int, most: int) -> tuple[int, ...]:
    """Return the powers of two in a range."""
    return tuple(1 << power for power in range(most.bit_length()) if least <= 1 << power <= most)


def power_above(size: int) -> int:
    """Return the least power of two that is not less."""
    return 1 << max(0, typical(size) - 1).bit_length()
