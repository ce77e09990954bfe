"""The reference in fp64, slice by slice of the batch where that saves memory and the reference allows it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..workers.memory import is_large, size_of
from ..workers.modules import outputs_of
from .errors import relative_error

Run = Callable[[Any, Sequence[int]], list[Any]]
"""Returns the outputs in fp64 for a part of the inputs with these numbers, and all of the others."""
PART = 1 << 29
"""Bytes of a slice's inputs and outputs in fp64."""
SAME = 1e-9
"""Two samples together and each alone may differ by this share of the result: fp64 rounds at 1e-16."""
NEAR = 0.1
"""Samples in fp64 may differ by this share from those in the problem's own precision."""


def exact_parts(model: Any, inputs: Sequence[Any], expected: Sequence[Any]) -> Iterator[tuple[Any, list[Any]]]:
    """Yield index and outputs of each part of the reference's result in fp64; the inputs stay as they are.

    The index selects the same part of `expected`, the result in the problem's own precision: of all of it, unless it
    is large and its samples do not depend on each other. Raises what the reference raises in fp64.
    """
    exact = copy.deepcopy(model).double()

    def run(part: Any, sliced: Sequence[int]) -> list[Any]:
        return outputs_of(exact(*(double(value[part] if i in sliced else value) for i, value in enumerate(inputs))))

    if is_large([*inputs, *expected]):
        for sliced in _candidates(inputs, expected):
            if _are_independent(run, sliced, expected):
                yield from _slices(run, sliced, inputs, expected)
                return
    yield ..., run(..., ())


def _slices(
    run: Run,
    sliced: Sequence[int],
    inputs: Sequence[Any],
    expected: Sequence[Any],
) -> Iterator[tuple[Any, list[Any]]]:
    batch = len(expected[0])
    sample = size_of([*(inputs[i] for i in sliced), *expected]) // batch
    step = max(1, PART // (2 * sample))
    for start in range(0, batch, step):
        part = slice(start, start + step)
        yield part, run(part, sliced)


def _candidates(inputs: Sequence[Any], expected: Sequence[Any]) -> list[tuple[int, ...]]:
    """Return which inputs may have the batch as their first axis: all with that extent, or only the first of them.

    A matrix that is multiplied from the right may have the extent by chance.
    """
    import torch

    extents = {len(item) if item.dim() else 0 for item in expected}
    if len(extents) != 1 or max(extents) < 2:
        return []
    alike = tuple(
        i for i, value in enumerate(inputs) if isinstance(value, torch.Tensor) and value.dim() and len(value) in extents
    )
    return list(dict.fromkeys([alike, alike[:1]])) if alike else []


def _are_independent(run: Run, sliced: Sequence[int], expected: Sequence[Any]) -> bool:
    """Return whether two samples give what each gives alone, and what the result has in their place.

    The last two, since some distributions set the first ones to zero.
    """
    batch = len(expected[0])
    first, second, both = slice(batch - 2, batch - 1), slice(batch - 1, batch), slice(batch - 2, batch)
    try:
        together, alone = run(both, sliced), list(zip(run(first, sliced), run(second, sliced), strict=True))
    except Exception:  # whatever: the whole batch will show whether fp64 works at all
        return False
    return len(together) == len(expected) and all(
        _near(result, wanted[both], NEAR) and _near(result[:1], a, SAME) and _near(result[1:], b, SAME)
        for result, (a, b), wanted in zip(together, alone, expected, strict=True)
    )


def _near(exact: Any, other: Any, limit: float) -> bool:
    import torch

    if exact.shape != other.shape:
        return False
    if not exact.is_floating_point():
        return bool(torch.equal(exact, other)) or limit == NEAR  # rounding may decide an index
    return relative_error(exact, other)[0] <= limit


def double(value: Any) -> Any:
    """Return a copy of a tensor, in fp64 if it is floating; anything else unchanged."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(torch.float64 if value.is_floating_point() else value.dtype, copy=True)
    return value
