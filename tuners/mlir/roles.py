"""Roles of an operation's loops in a tile: rows, columns and depth of a product in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...core.mlir_operation import Loop, Operation


@dataclass(frozen=True)
class LoopRoles:
    """The loops of an operation by the part they play; a convolution is a product at each place of its window."""

    operation: Operation
    columns: Loop
    """The loop that is contiguous in the result, and is vectorized."""
    rows: Loop | None
    """Another loop of the result; None if all others have one step."""
    depth: Loop
    """The longest loop that is summed over."""
    height: Loop | None = None
    """The rows of a convolution's image."""

    @classmethod
    def of(cls, operation: Operation) -> LoopRoles:
        """Return the roles of an operation's loops."""
        by_name = {loop.name: loop for loop in operation.loops}
        result = [by_name[index[0][0]] for index in operation.accesses[2]]
        long = [loop for loop in result if loop.size > 1] or result
        columns = long[-1]
        height = by_name.get("OH")
        others = [loop for loop in result if loop not in (columns, height) and not loop.name.startswith("B")]
        rows = max((loop for loop in others if loop.size > 1), key=_steps, default=None)
        reductions = [loop for loop in operation.loops if loop.reduction and loop.name not in ("KH", "KW")]
        return cls(operation, columns, rows, max(reductions, key=_steps), height)

    @property
    def loops(self) -> Sequence[Loop]:
        """All loops in the order of the operation's iteration space."""
        return self.operation.loops

    @property
    def row_steps(self) -> int:
        """The size of the rows, 1 without rows."""
        return self.rows.size if self.rows else 1

    @property
    def result_bytes(self) -> int:
        """Bytes of an element of the result."""
        return self.operation.result.element_bytes

    @property
    def convolution(self) -> bool:
        """Whether it has a window."""
        return self.height is not None

    @property
    def transposed(self) -> bool:
        """Whether the operand that the columns index lies along the depth: vectors over columns are gathered."""
        along = ((self.depth.name, 1),)
        reads = self.operation.accesses[:2]
        return any(read[-1] == along and ((self.columns.name, 1),) in read for read in reads)

    def parallel(self) -> list[str]:
        """Return the names of the loops that are not summed over."""
        return [loop.name for loop in self.loops if not loop.reduction]

    def summed(self) -> list[str]:
        """Return the names of the loops that are summed over."""
        return [loop.name for loop in self.loops if loop.reduction]


def _steps(loop: Loop) -> int:
    return loop.size
