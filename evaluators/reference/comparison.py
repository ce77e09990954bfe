"""Compares results with the reference's: what difference is allowed, and how exact both are against fp64."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Any

from ...core import Status
from ...core.problem import TOLERANCES
from ..correctness.compare import EXACT, Allowed, dtype_name
from ..correctness.conditioning import ROUNDING, amplified_error, forgive, is_as_exact, rows_are_close, settled
from ..correctness.distributions import MAGNITUDES, OTHER_STRIDES, STRUCTURE
from ..correctness.errors import as_real
from ..correctness.fp64 import FLOOR, NARROW, NARROW_BYTES, TIMES_TORCH, Fp64Comparison, copied, in_fp64
from ..correctness.mixed_rows import MIXED, main_input
from ..correctness.row_limits import ReferenceRuns, Run, compare_rows
from ..correctness.start_errors import Errors, StartErrors, is_rounded
from ..correctness.trivial_outputs import TrivialOutput, passing_trivial_outputs
from ..workers.channel import Message
from .arithmetic import STRICT
from .drawn_reference import DrawnReference
from .other_rounding import rounded_elsewhere
from .tf32_convolutions import in_tf32


class Comparison:
    """The allowed differences at one workload; it learns torch's own errors."""

    def __init__(self, reference: DrawnReference) -> None:
        self._reference = reference
        self.exactness = Fp64Comparison()
        self.start = StartErrors()
        """Errors of the unmodified user function."""
        self._convolves = True  # unless a run shows that it does not

    def allowed(self, distribution: str | None = None, inputs: Sequence[Any] | None = None) -> Allowed:
        """Return the allowed difference on inputs of a distribution: those that the reference has now, or others."""
        reference = self._reference
        on = reference.inputs if inputs is None else inputs
        return Allowed(
            reference.tolerances,
            self.exactness.slack(None if distribution == OTHER_STRIDES else distribution),
            unbounded=distribution not in (None, OTHER_STRIDES),
            any_order=reference.options.get("package") is not None,
            forgiven=partial(self._forgiven, distribution, on),
            excused=partial(self._excused, distribution, on),
            rows=partial(self._by_rows, distribution, on) if distribution in MIXED else None,
        )

    def in_fp32(self, inputs: list[Any], distribution: str | None, precise: bool = False) -> list[Any] | None:
        """Return the reference's outputs in fp32, where it computes in less and its error is to be learned.

        On inputs of other distributions it is learned from each seed: the largest of heavy tails varies. Learns also
        the error of convolutions in TF32, where PyTorch's defaults allow them and the library may choose fp32.
        """
        reference = self._reference
        known = distribution is None and self.exactness.knows_defaults
        if reference.arithmetic.main == STRICT or (known and not precise):
            return None
        with reference.arithmetic.switched(STRICT):
            fp32 = reference.outputs(copied(inputs))
            if reference.arithmetic.main.convolutions and self._convolves:
                with contextlib.suppress(Exception):  # too little memory, or a model that no mode may watch
                    rounded = in_tf32(lambda: reference.outputs(copied(inputs)))
                    self._convolves = rounded is not None
                    if rounded is not None:
                        self.exactness.learn(fp32, rounded, distribution)
        return fp32

    def learn_rounding(self, fp32: list[Any]) -> bool:
        """Learn the error of the reference's own rounding on the problem's inputs; return whether it was unknown.

        It exceeds the tolerance where small results are differences of larger numbers.
        """
        return self.exactness.learn_rounding(self._reference.model, self._reference.inputs, fp32)

    def further_verdict(
        self,
        inputs: Sequence[Any],
        expected: list[Any],
        actual: list[Any],
        fp32: list[Any] | None,
        allowed: Allowed,
        distribution: str | None,
        precise: bool = False,
    ) -> Message:
        """Hold a correct result to fp64, and look whether it is a trivial output.

        Computes in fp64 only where that may change anything, unless the errors are wanted (`precise`). On inputs of
        other distributions there is no limit against fp64 but that of mixed rows.
        """
        found: Message = {}
        own = distribution is None
        if precise or (own and not self.exactness.is_surely_exact(expected, actual)):
            found = self.exactness.compare(self._reference.model, inputs, expected, actual, fp32, self._rms_limit)
        trivial = TrivialOutput.of(actual, expected, inputs) if precise or own else None
        if precise or trivial is not None:
            found["trivial_outputs"] = passing_trivial_outputs(expected, inputs, allowed)
            found["trivial_output"] = str(trivial) if trivial else None
        return found

    def _rms_limit(self, number: int, dtype: str) -> float:
        """Return the root mean square error against fp64 that an output of a user's function may have at least: by that
        of the function as it stands, or by a tolerance that its user chose."""
        chosen = self._reference.tolerances.get(dtype, EXACT).tightest
        usual = TOLERANCES[dtype].tightest if dtype in TOLERANCES else chosen
        own = self._reference.options.get("package") is not None
        return max(self.start.rms_limit(number, dtype), chosen if own and chosen > usual else 0.0)

    def _in_tf32(self) -> Run | None:
        """Return the reference with convolutions in TF32, where PyTorch's defaults allow them and it has some."""
        reference = self._reference
        if not (reference.arithmetic.main.convolutions and self._convolves):
            return None

        def run(inputs: Sequence[Any]) -> list[Any]:
            with contextlib.suppress(Exception):  # as in `in_fp32`
                if (rounded := in_tf32(lambda: reference.outputs(copied(inputs)))) is not None:
                    return rounded
            return reference.outputs(copied(inputs))

        return run

    def learn_start(
        self, distribution: str | None, inputs: Sequence[Any], expected: Sequence[Any], actual: Sequence[Any]
    ) -> None:
        """Remember the errors of what the unmodified user function returned for these inputs, and wrote to them."""
        for number, (nominal, got) in enumerate(zip(expected, actual, strict=True)):
            if nominal.is_floating_point() or is_rounded(nominal):
                self.start.learn(distribution, number, self._errors(distribution, inputs, number, nominal, got))

    def _excused(
        self, distribution: str | None, inputs: Sequence[Any], number: int, expected: Any, actual: Any
    ) -> bool:
        """Return whether the start has such errors as well."""
        if not self.start.known(distribution):
            return False
        dtype = dtype_name(expected)
        tolerance = self._reference.tolerances.get(dtype, EXACT)
        errors = self._errors(distribution, inputs, number, expected, actual)
        return self.start.excuse(distribution, number, errors, tolerance, dtype)

    def _errors(
        self, distribution: str | None, inputs: Sequence[Any], number: int, expected: Any, actual: Any
    ) -> Errors:
        """Return the errors of an output against fp64, or against the reference where it has no result in fp64, as it
        has none of an input that it writes to."""
        if is_rounded(expected):
            return Errors.of_rounded(expected, actual)
        exact, axes = expected, inputs[main_input(inputs)].dim() if distribution in MIXED else None
        with contextlib.suppress(RuntimeError, TypeError, MemoryError):
            results = in_fp64(self._reference.model)(inputs)
            exact, axes = (as_real(results[number]), axes) if number < len(results) else (expected, None)
        return Errors.of(exact, as_real(actual), axes)

    def _by_rows(
        self, distribution: str, inputs: Sequence[Any], number: int, expected: Any, actual: Any, which: str
    ) -> Message | None:
        """Compare an output row by row; None where there is too little memory for that."""
        import torch

        reference = self._reference
        tolerance = reference.tolerances.get(dtype_name(expected), EXACT)
        try:
            runs = ReferenceRuns(
                lambda given: reference.outputs(copied(given)),
                in_fp64(reference.model),
                inputs,
                self._in_tf32(),
                lambda draw: rounded_elsewhere(lambda: reference.outputs(copied(inputs)), draw),
            )
            found = compare_rows(runs, number, expected, actual, tolerance, which)
            if found["status"] != Status.OK and self._excused(distribution, inputs, number, expected, actual):
                found |= {"status": Status.OK, "message": ""}
            return found
        except (torch.OutOfMemoryError, MemoryError):
            return None

    def _forgiven(
        self, distribution: str | None, inputs: Sequence[Any], number: int, expected: Any, actual: Any
    ) -> Any:
        """Return an output with the expected values where rounding decides the result, or where the start of a user's
        function has such errors as well."""
        left = self._settled(distribution, inputs, number, expected, actual)
        return expected if self._excused(distribution, inputs, number, expected, actual) else left

    def _settled(self, distribution: str | None, inputs: Sequence[Any], number: int, expected: Any, actual: Any) -> Any:
        reference, dtype = self._reference, dtype_name(expected)
        narrow = expected.is_floating_point() and expected.element_size() <= NARROW_BYTES
        if not narrow and (distribution is None or not expected.is_floating_point()):
            return actual
        tolerance, in_full = reference.tolerances.get(dtype, EXACT), in_fp64(reference.model)
        left = actual
        try:
            if distribution in MAGNITUDES:
                again = lambda given: reference.outputs(given)[number]  # noqa: E731
                left = settled(again, inputs, expected, actual, tolerance.tightest)
            elif distribution is not None:
                # The tolerance of 16 bits is about their rounding; that of fp32 is far above it.
                relative = tolerance.relative if narrow or distribution == STRUCTURE else ROUNDING
                left = forgive(expected, actual, amplified_error(in_full, inputs, number, relative))
            if dtype not in NARROW:
                return left
            exact = as_real(in_full(inputs)[number])
            if distribution is None:
                return expected if is_as_exact(exact, expected, actual) else actual
            return expected if rows_are_close(exact, expected, left, TIMES_TORCH, FLOOR[dtype]) else left
        except (RuntimeError, MemoryError):  # too little memory for another run in fp64
            return left
