"""Requests that ask which other inputs the reference accepts."""

from __future__ import annotations

import itertools
from typing import Any

from ..correctness.compare import EXACT, dtype_name
from ..correctness.conditioning import is_steady
from ..correctness.distributions import (
    DISTRIBUTIONS,
    MAGNITUDES,
    OTHER_NUMBERS,
    OTHER_STRIDES,
    OTHER_WEIGHTS,
    SPECIAL,
    is_floating,
)
from ..correctness.fp64 import copied, outputs_where_accepted
from ..correctness.mixed_rows import MIXED, MODERATE, main_input
from ..correctness.reference_checks import same_result, same_special_values
from ..workers.channel import Message
from ..workers.memory import is_large
from .arithmetic import STRICT
from .comparison import Comparison
from .drawn_reference import DrawnReference


class InputRequests:
    """Which inputs serve to check a candidate; each method serves the request of its name."""

    REQUESTS = ("distributions", "remarks")

    def __init__(self, reference: DrawnReference, comparison: Comparison) -> None:
        self._reference = reference
        self._comparison = comparison

    def distributions(self) -> Message:
        """Return the distributions, and other changes, with which the reference itself is finite and close to fp64."""
        reference = self._reference
        reference.prepare(0)
        fit: list[str] = []
        if any(is_floating(value) for value in reference.inputs):
            fit = [name for name in DISTRIBUTIONS if self._copes(name)]
            # What a kernel keeps between its steps may be in fp16 too, whose range ends at 65504.
            narrow = any(is_floating(value) and dtype_name(value) == "float16" for value in reference.inputs)
            fit += itertools.islice(filter(self._copes, () if narrow else MAGNITUDES), 1)
            fit += itertools.islice(filter(self._copes_by_row, self._mixtures(narrow)), 1)
        if any(parameter.is_floating_point() for parameter in reference.model.parameters()) and self._copes(
            OTHER_WEIGHTS
        ):
            fit.append(OTHER_WEIGHTS)
        if self._accepts_other_numbers():
            fit.append(OTHER_NUMBERS)
        reference.forget_inputs()
        reference.release()
        return {"distributions": fit}

    def remarks(self) -> Message:
        """Return which of the inputs that a kernel may treat otherwise the reference accepts, with definite results."""
        fit = [SPECIAL] if self._is_definite_on_special_values() else []
        fit += [OTHER_STRIDES] if self._accepts_other_strides() else []
        self._reference.forget_inputs()
        self._reference.release()
        return {"distributions": fit}

    def _copes(self, distribution: str) -> bool:
        reference = self._reference
        reference.prepare(0, distribution)
        with reference.arithmetic.switched(STRICT):
            if not self._comparison.exactness.copes(
                reference.model, reference.inputs, distribution, reference.tolerances
            ):
                return False
            if distribution not in MAGNITUDES:
                return True
            expected = self._floating(*copied(reference.inputs))
            allowed = [reference.tolerances.get(dtype_name(item), EXACT).tightest for item in expected]
            return is_steady(self._floating, reference.inputs, expected, allowed)

    def _copes_by_row(self, distribution: str) -> bool:
        """Return whether the reference is finite and accurate in most of the rows, each by its own measure."""
        reference = self._reference
        reference.prepare(0, distribution)
        with reference.arithmetic.switched(STRICT):
            expected = outputs_where_accepted(reference.model, reference.inputs)
            return (
                expected is not None
                and not is_large([*reference.inputs, *expected])
                and self._comparison.exactness.copes_by_row(reference.model, reference.inputs, expected)
            )

    def _mixtures(self, narrow: bool) -> tuple[str, ...]:
        """The mixed rows that may be used: not of eight bits, of inputs that are written to, or where only a share of a
        result must match."""
        reference = self._reference
        reference.prepare(0)
        main = reference.inputs[main_input(reference.inputs)]
        partly = any(tolerance.matched < 1 for tolerance in reference.tolerances.values())
        if main.element_size() == 1 or reference.changes_inputs or partly or is_large(reference.inputs):
            return ()
        return (MODERATE,) if narrow else tuple(MIXED)

    def _accepts_other_numbers(self) -> bool:
        """Return whether there are whole numbers that no seed changes, and the reference stands others."""
        reference = self._reference
        reference.prepare(0)
        before = reference.inputs
        reference.prepare(0, OTHER_NUMBERS)
        if all(_equal(value, present) for value, present in zip(before, reference.inputs, strict=True)):
            return False
        outputs = outputs_where_accepted(reference.model, reference.inputs)
        return outputs is not None and (not any(map(is_floating, outputs)) or self._copes(OTHER_NUMBERS))

    def _floating(self, *inputs: Any) -> list[Any]:
        return [output for output in self._reference.outputs(inputs) if output.is_floating_point()]

    def _accepts_other_strides(self) -> bool:
        reference = self._reference
        reference.prepare(0)
        before, strides = (
            outputs_where_accepted(reference.model, reference.inputs),
            [_strides(value) for value in reference.inputs],
        )
        reference.prepare(0, OTHER_STRIDES)
        if before is None or [_strides(value) for value in reference.inputs] == strides:
            return False
        after = outputs_where_accepted(reference.model, reference.inputs)
        return after is not None and same_result(before, after)

    def _is_definite_on_special_values(self) -> bool:
        reference = self._reference
        reference.prepare(0)
        if not any(is_floating(value) for value in reference.inputs):
            return False
        outputs = []
        for _ in range(2):
            reference.forget_inputs()  # it may write to them
            reference.prepare(0, SPECIAL)
            outputs.append(outputs_where_accepted(reference.model, reference.inputs))
        first, again = outputs
        return first is not None and again is not None and same_special_values(first, again)


def _equal(first: Any, second: Any) -> bool:
    import torch

    return not isinstance(first, torch.Tensor) or is_floating(first) or torch.equal(first, second)


def _strides(value: Any) -> Any:
    import torch

    return value.stride() if isinstance(value, torch.Tensor) and value.layout == torch.strided else None
