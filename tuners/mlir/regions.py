"""Dispatches of their own for operations that IREE would rewrite, and whose schedules it would drop thereby.

It takes loops of one step out of generic operations and of convolutions, and makes one loop of several, before it forms
dispatches; in one that is formed already it leaves them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .bindings import load
from .operations import NotSchedulableError, operation_of


def separate(body: Sequence[Any]) -> bool:
    """Put those of a function's operations that would lose their schedules into dispatches; whether any was.

    `body` are the function's operations, within its module; those that moved are others afterwards.
    """
    moved = [item for position, item in enumerate(body) if _loses_its_schedule(item, position)]
    for item in moved:
        _wrap(item)
    return bool(moved)


def _loses_its_schedule(statement: Any, position: int) -> bool:
    if statement.name != "linalg.generic" and ".conv_" not in statement.name:
        return False
    try:
        operation = operation_of(statement, position, 0)
    except NotSchedulableError:
        return False
    return operation is not None and (
        operation.kind == "contraction" or any(loop.size == 1 for loop in operation.loops)
    )


def _wrap(operation: Any) -> None:
    """Put an operation, and the filling of the tensor that it adds to, into `flow.dispatch.region`."""
    ir, _ = load()
    region = ir.Operation.create(
        "flow.dispatch.region",
        results=[operation.results[0].type],
        attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0])},
        regions=2,
        ip=ir.InsertionPoint(operation),
    )
    inside = ir.InsertionPoint(region.regions[0].blocks.append())
    start = operation.operands[2]
    if isinstance(start.owner, ir.Operation | ir.OpView) and start.owner.name == "linalg.fill":
        start = start.owner.clone(ip=inside).results[0]
    moved = operation.operation.clone(ip=inside)
    moved.operands[2] = start
    ir.Operation.create("flow.return", operands=[moved.results[0]], ip=inside)
    operation.results[0].replace_all_uses_with(region.results[0])
    operation.erase()
