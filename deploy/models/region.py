"""Writes a region of a graph as the source of a reference, which is its key and the problem that is optimized."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch.fx import Node

from .partition import NodeGroup, has_symbols, is_creation, is_view
from .reference import architecture, region_key

_RESHAPE = "aten.reshape.default"
REGION_MARK = "kernelwright_region"
"""Key of a node's own metadata, which torch passes on to the node's replacement."""
_SAME_AS_RESHAPE = ("aten.view.default", "aten._unsafe_view.default")


class UnwrittenRegionError(Exception):
    """A region that no text describes, with the reason; it is left to Inductor."""


@dataclass(frozen=True)
class RegionTensor:
    """A value that a region reads or returns: contiguous, if a permutation makes it so."""

    node: Node
    order: tuple[int, ...] | None
    """Dimensions of the node, in the order in which the region has them; None as they are."""

    @classmethod
    def of(cls, node: Node) -> RegionTensor:
        """Return a node's value in the order of its memory."""
        tensor = node.meta["val"]
        order = tuple(sorted(range(tensor.dim()), key=lambda place: -tensor.stride(place)))
        moved = not tensor.is_contiguous() and tensor.permute(order).is_contiguous()
        return cls(node, order if moved else None)

    @property
    def value(self) -> Any:
        """The fake tensor, as the region has it."""
        tensor = self.node.meta["val"]
        return tensor if self.order is None else tensor.permute(self.order)

    @property
    def back(self) -> list[int]:
        """The permutation from the region's order to the node's."""
        assert self.order is not None
        return [self.order.index(place) for place in range(len(self.order))]


@dataclass(frozen=True)
class ModelRegion:
    """A region of a graph, with its text."""

    inputs: tuple[RegionTensor, ...]
    """Values that it reads, in the order of the text's arguments."""
    outputs: tuple[RegionTensor, ...]
    nodes: tuple[Node, ...]
    text: str
    """`class Model`, whose `forward` takes the inputs and returns the outputs; normal form of `reference_text`."""
    device: str
    """'cpu' or 'cuda'."""

    @cached_property
    def key(self) -> str:
        """Digest of the text and the architecture that it runs on; 32 hexadecimal digits."""
        return region_key(self.text, architecture(self.device))


def written_region(group: NodeGroup) -> ModelRegion:
    """Return a region with its text. Raises `UnwrittenRegionError` if no deployed operator can serve it."""
    writer = _RegionWriter(group)
    outputs = group.outputs()
    if not outputs:
        raise UnwrittenRegionError("nothing reads it")
    returned = [RegionTensor.of(node) for node in outputs]
    names = [writer.returned(item) for item in returned]
    if not writer.inputs:
        raise UnwrittenRegionError("it reads no tensor")
    devices = {str(item.value.device) for item in (*writer.inputs, *returned)}
    if len(devices) > 1:
        raise UnwrittenRegionError(f"its tensors are on {', '.join(sorted(devices))}")
    if not all(item.value.is_contiguous() for item in returned):
        raise UnwrittenRegionError("a result has gaps in memory")
    given = ", ".join(f"x{place}: {described(item.value)!r}" for place, item in enumerate(writer.inputs))
    result = names[0] if len(names) == 1 else f"({', '.join(names)})"
    lines = [
        "class Model(torch.nn.Module):",
        "",
        f"    def forward(self, {given}):",
        *(f"        {statement}" for statement in writer.statements),
        f"        return {result}",
    ]
    device = writer.inputs[0].value.device.type
    return ModelRegion(tuple(writer.inputs), tuple(returned), tuple(group.nodes), "\n".join(lines), device)


def mark(nodes: Iterable[Node], key: str) -> None:
    """Give nodes, and their replacements by Inductor's passes, their region's key."""
    for node in nodes:
        node.meta["custom"] = {**node.meta.get("custom", {}), REGION_MARK: key}


def described(tensor: torch.Tensor) -> str:
    """Return dtype and sizes, and strides that are not those of a contiguous tensor: 'float32[4, 8] strides (1, 4)'."""
    strides = "" if tensor.is_contiguous() else f" strides {tuple(tensor.stride())}"
    return f"{_word(tensor.dtype)}{list(tensor.shape)}{strides}"


def _word(item: Any) -> str:
    return str(item).removeprefix("torch.")


class _RegionWriter:
    """Writes the statements of a region, each value when it is first read."""

    def __init__(self, group: NodeGroup) -> None:
        self._own = set(group.nodes)
        self._names: dict[Node, str] = {}
        self.inputs: list[RegionTensor] = []
        self.statements: list[str] = []

    def name_of(self, node: Node) -> str:
        """Return a value's name, after the statements that compute it."""
        left = [node]
        while left:  # without recursion: a region may be deep
            item = left[-1]
            inner = [operand for operand in item.all_input_nodes if operand not in self._names]
            if item in self._names or not self._written_here(item):
                left.pop()
                self._give(item)
            elif inner:
                left += inner[::-1]
            else:
                left.pop()
                self._write(item)
        return self._names[node]

    def _written_here(self, node: Node) -> bool:
        if node in self._own or is_creation(node):
            return True
        return is_view(node)

    def _give(self, node: Node) -> None:
        if node in self._names:
            return
        if not isinstance(node.meta.get("val"), torch.Tensor):
            raise UnwrittenRegionError(f"{node.name} is not a tensor")
        if has_symbols(node.meta["val"]):
            raise UnwrittenRegionError(f"a size of {node.name} is not fixed")
        given = RegionTensor.of(node)
        self._names[node] = f"x{len(self.inputs)}"
        if given.order is not None:
            self._names[node] = self._permuted(self._names[node], given.back)
        self.inputs.append(given)

    def returned(self, tensor: RegionTensor) -> str:
        """Return the name of a result, in the order of its memory."""
        name = self.name_of(tensor.node)
        return name if tensor.order is None else self._permuted(name, list(tensor.order))

    def _permuted(self, name: str, order: list[int]) -> str:
        return self._stated(f"torch.ops.aten.permute.default({name}, {order})")

    def _stated(self, text: str) -> str:
        name = f"v{len(self.statements)}"
        self.statements.append(f"{name} = {text}")
        return name

    def _write(self, node: Node) -> None:
        if _has_default_dtype(node):
            raise UnwrittenRegionError(f"the dtype of {node.name} is torch's default one, which no text says")
        if node.target is operator.getitem:
            text = f"{self._names[node.args[0]]}[{node.args[1]}]"
        else:
            parts = [self._argument(item) for item in node.args]
            for keyword, item in node.kwargs.items():
                if keyword not in ("layout", "pin_memory"):
                    parts.append(f"{keyword}={self._keyword(keyword, item)}")
            # Inductor's passes write one for another.
            target = _RESHAPE if str(node.target) in _SAME_AS_RESHAPE else node.target
            text = f"torch.ops.{target}({', '.join(parts)})"
        self._names[node] = self._stated(text)

    def _keyword(self, name: str, item: Any) -> str:
        if name != "device" or item is None:
            return self._argument(item)
        if not self.inputs:
            raise UnwrittenRegionError("it makes a tensor before it reads one")
        return "x0.device"  # the number of a GPU does not matter

    def _argument(self, item: Any) -> str:
        match item:
            case Node():
                return self._names[item]
            case list() | tuple():
                return f"[{', '.join(map(self._argument, item))}]"
            case torch.dtype() | torch.memory_format():
                return f"torch.{_word(item)}"
            case float() if not math.isfinite(item):
                return f"float({str(item)!r})"
            case None | bool() | int() | float() | str():
                return repr(item)
        raise UnwrittenRegionError(f"an argument is a {type(item).__name__}")


def _has_default_dtype(node: Node) -> bool:
    """Return whether a node makes floating-point numbers from integers or nothing without an explicit dtype."""
    made = node.meta["val"]
    if not isinstance(made, torch.Tensor) or not made.is_floating_point():
        return False
    operands = [item.meta["val"] for item in node.all_input_nodes]
    if any(not isinstance(item, torch.Tensor) or item.is_floating_point() or item.is_complex() for item in operands):
        return False
    return not any(isinstance(item, torch.dtype) for item in (*node.args, *node.kwargs.values()))


def problem_source(region: ModelRegion, about: Sequence[str] = (), drawn: Sequence[str | None] = ()) -> str:
    """Return a problem file that computes a region.

    `about` are lines for its docstring, `drawn` expressions for its inputs, where they are known.
    """
    known = [*drawn, *[None] * (len(region.inputs) - len(drawn))]
    lines = [
        f"        {found or _drawn(item.value)},  # x{place}"
        for place, (item, found) in enumerate(zip(region.inputs, known, strict=True))
    ]
    return "\n".join(
        [
            '"""A region of a model, as torch.compile gives it to Inductor.',
            "",
            *about,
            '"""',
            "",
            "import torch",
            "",
            "",
            region.text,
            "",
            "",
            "def get_inputs():",
            "    return [",
            *lines,
            "    ]",
            "",
            "",
            "def get_init_inputs():",
            "    return []",
            "",
        ]
    )


def _drawn(tensor: torch.Tensor) -> str:
    """Return an expression that draws a tensor: normal numbers, integers and flags of either value."""
    sizes, dtype = list(tensor.shape), f"torch.{_word(tensor.dtype)}"
    if tensor.is_contiguous():
        if tensor.dtype.is_floating_point:
            return f"torch.randn({sizes}).to({dtype})"
        return f"torch.randint(0, 2, {sizes}).to({dtype})"
    made = f"torch.empty_strided({tuple(sizes)}, {tuple(tensor.stride())}, dtype={dtype})"
    return f"{made}.normal_()" if tensor.dtype.is_floating_point else f"{made}.random_(0, 2)"
