"""A reference with a size that is free within a range: which dimensions follow it, and the sizes in its graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.dynamic_size import FreeSize
from ...core.operator_graph import OF, SIZE
from ..workers.modules import ProblemModule

Shapes = list[tuple[int, ...] | None]
"""Of each input; None for what is no tensor."""


def dynamic_shapes(problem: ProblemModule, free: FreeSize) -> tuple[Any, ...]:
    """Return torch.export's `dynamic_shapes` of a problem's inputs, found by making them at three sizes.

    Raises `ValueError` where no dimension follows the size, or one is no multiple of it plus a number.
    """
    import torch

    values = sorted({free.low, (free.low + free.high) // 2, free.high})
    if len(values) < 2:
        raise ValueError(f"{free.in_words} is one size, not a range")
    made = [_shapes_at(problem, free.name, value) for value in values]
    dimension = torch.export.Dim(free.name, min=free.low, max=free.high)
    found = tuple(_dimensions(free, values, shapes, dimension) for shapes in zip(*made, strict=True))
    if not any(found):
        raise ValueError(f"no dimension of its inputs follows {free.name}")
    return found


def _shapes_at(problem: ProblemModule, name: str, value: int) -> Shapes:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    before = getattr(problem.module, name)
    setattr(problem.module, name, value)
    try:
        with FakeTensorMode():
            inputs = problem.module.get_inputs()
    finally:
        setattr(problem.module, name, before)
    return [tuple(item.shape) if isinstance(item, torch.Tensor) else None for item in inputs]


def _dimensions(
    free: FreeSize, values: Sequence[int], shapes: Sequence[tuple[int, ...] | None], dimension: Any
) -> dict[int, Any] | None:
    """Return the free dimensions of an input, by place."""
    if any(shape is None for shape in shapes) or len({len(shape or ()) for shape in shapes}) > 1:
        if any(shape is not None for shape in shapes):
            raise ValueError(f"an input has another number of dimensions at another {free.name}")
        return None
    found: dict[int, Any] = {}
    for place, sizes in enumerate(zip(*[shape or () for shape in shapes], strict=True)):
        if len({*sizes}) == 1:
            continue
        factor, rest = divmod(sizes[-1] - sizes[0], values[-1] - values[0])
        offset = sizes[0] - factor * values[0]
        if rest or any(factor * value + offset != size for value, size in zip(values, sizes, strict=True)):
            raise ValueError(f"a dimension is {sizes} at {free.name} = {list(values)}, no multiple of it")
        scaled = dimension if factor == 1 else factor * dimension
        found[place] = scaled + offset if offset else scaled
    return found


def plain_size(size: Any, free: FreeSize | None) -> Any:
    """Return a size of an exported tensor as a graph's JSON has it. Raises `ValueError` where it is no polynomial."""
    import torch

    if not isinstance(size, torch.SymInt):
        return int(size)
    expression = size.node.expr
    if expression.is_number:
        return int(expression)
    found = expression.as_poly(*expression.free_symbols)
    if found is None or len(found.gens) > 1:
        raise ValueError(f"a size is {expression}, no multiple of the size that is free")
    factors = [int(item) for item in found.all_coeffs()[::-1]]
    assert free is not None
    return {SIZE: factors, OF: [free.name, free.low, free.high]}
