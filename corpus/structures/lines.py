"""The lines of one kernel: blocks, variables, and loads and stores under masks."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ...core.dynamic_size import UndecidedSizeError, is_dynamic, largest
from ...core.operator_graph import OperatorGraph
from .elementwise import Scalar, computed, triton_name
from .indices import Index, linear

WIDE = 2**31
"""Positions from here on need 64 bits."""


@dataclass
class LineBlock:
    """Lines of one block, and the variables that are known in it."""

    lines: list[str] = field(default_factory=list)
    known: dict[object, Scalar] = field(default_factory=dict)


class KernelLines:
    """Lines that a kernel is written with, and the tensors that they point to."""

    def __init__(self, graph: OperatorGraph) -> None:
        self.graph = graph
        self.buffers: dict[str, str] = {}
        """By the names of tensors that the kernel loads or stores, the parameters that point to them."""
        self.wide = False
        """Whether a position needs 64 bits."""
        self.masks: tuple[str, ...] = ()
        """Conditions under which loads are made now."""
        self._scopes = [LineBlock()]
        self._variables = 0

    @property
    def lines(self) -> list[str]:
        """The lines of the innermost block."""
        return self._scopes[-1].lines

    @contextlib.contextmanager
    def block(self) -> Iterator[list[str]]:
        """Inside, lines go to a new block, which the template puts in its place."""
        scope = LineBlock()
        self._scopes.append(scope)
        try:
            yield scope.lines
        finally:
            self._scopes.remove(scope)

    def variable(self, text: str) -> str:
        """Assign an expression to a new variable of the innermost block."""
        name = f"v{self._variables}"
        self._variables += 1
        self.lines.append(f"{name} = {text}")
        return name

    def named(self, item: Scalar) -> Scalar:
        """Return the scalar as a variable; a number stays one."""
        if item.constant or item.text.isidentifier():
            return item
        return replace(item, text=self.variable(item.text))

    def known(self, key: object) -> Scalar | None:
        """Return the value stored under a key in this block or an enclosing one."""
        return next((scope.known[key] for scope in reversed(self._scopes) if key in scope.known), None)

    def remember(self, key: object, item: Scalar) -> None:
        """Remember a scalar while the innermost block lasts."""
        self._scopes[-1].known[key] = item

    @contextlib.contextmanager
    def masked(self, *conditions: str) -> Iterator[None]:
        """Add these conditions to all loads inside the block."""
        before, self.masks = self.masks, (*self.masks, *conditions)
        try:
            yield
        finally:
            self.masks = before

    def store(
        self,
        name: str,
        indices: Sequence[Index],
        item: Scalar,
        tile: str,
        masks: Sequence[str] = (),
        spread: bool = False,
    ) -> None:
        """Write an element of a value to its buffer. `tile` is the shape that the kernel computes at once.

        With `spread` the position may be without one of the tile's dimensions, which has one element in the buffer.
        """
        value = self.graph.by_name[name]
        position = linear(indices, value.shape)
        mask = " & ".join(sorted({*position.masks, *masks}))
        place, given = self._text(position), item.to(value.dtype)
        if not position.terms or spread:
            place = f"{place} + tl.zeros({tile}, tl.int32)"
        text = given.text
        if given.constant:
            text = f"tl.full({tile}, {text}, {triton_name(value.dtype)})"
        self.lines.append(f"tl.store({self._pointer(name)} + {place}, {text}{', ' + mask if mask else ''})")

    def load(self, name: str, position: Index, dtype: str) -> Scalar:
        """Load an element of a buffer."""
        mask, place = " & ".join(sorted({*position.masks, *self.masks})), self._text(position)
        if self.masks and not _names(mask) <= _names(place):  # they may span more dimensions than the position
            place = f"tl.where({mask}, {place}, 0)"
        text = f"tl.load({self._pointer(name)} + {place}"
        zero = "0.0" if dtype.startswith("float8") else "0"  # which no integer is converted to
        text += f", mask={mask}, other={zero})" if mask else ")"
        if dtype == "bool":
            return Scalar(f"{text}.to(tl.int1)", dtype)
        loaded = self.variable(text)
        return Scalar(
            loaded if computed(dtype) == dtype else f"{loaded}.to(tl.float32)",
            computed(dtype),
            loaded=loaded,
            source=dtype,
        )

    def _text(self, position: Index) -> str:
        if largest(position.most) + is_dynamic(position.most) >= WIDE:  # a dynamic one is compared with its end
            if is_dynamic(position.most):  # arguments have 32 bits
                raise UndecidedSizeError("positions of 32 and of 64 bits in one range; give a smaller one")
            self.wide = True
        return position.text if len(position.terms) + bool(position.offset) < 2 else f"({position.text})"

    def _pointer(self, name: str) -> str:
        return self.buffers.setdefault(name, f"{name}_ptr")


def _names(text: str) -> set[str]:
    """Return the names in an expression, without what marks masks."""
    return {name.removesuffix("_mask") for name in re.findall(r"[A-Za-z_]\w*", text)}
