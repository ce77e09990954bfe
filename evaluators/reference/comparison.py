"""Compares results with the reference's: what difference is allowed, and how exact both are against fp64."""

from __future__ import annotations

from typing import Any

from ..correctness.compare import EXACT, Allowed, as_real, dtype_name
from ..correctness.conditioning import amplified_error, forgive, rows_are_close, settled
from ..correctness.distributions import MAGNITUDES, OTHER_STRIDES, STRUCTURE
from ..correctness.fp64 import FLOOR, NARROW, NARROW_BYTES, TIMES_TORCH, Fp64Comparison, copied, in_fp64
from ..correctness.trivial_outputs import TrivialOutput, passing_trivial_outputs
from ..workers.channel import Message
from .arithmetic import STRICT
from .drawn_reference import DrawnReference


class Comparison:
    """The allowed differences at one workload; it learns torch's own errors."""

    def __init__(self, reference: DrawnReference) -> None:
        self._reference = reference
        self.exactness = Fp64Comparison()

    def allowed(self, distribution: str | None = None) -> Allowed:
        """Return the allowed difference on such inputs."""
        return Allowed(
            self._reference.tolerances,
            self.exactness.slack(None if distribution == OTHER_STRIDES else distribution),
            unbounded=distribution not in (None, OTHER_STRIDES),
            forgiven=self._forgiven if distribution is not None else None,
        )

    def in_fp32(self, inputs: list[Any], distribution: str | None, precise: bool = False) -> list[Any] | None:
        """Return the reference's outputs in fp32, where it computes in less and its error is to be learned.

        On inputs of other distributions it is learned from each seed: the largest of heavy tails varies.
        """
        reference = self._reference
        known = distribution is None and self.exactness.knows_defaults
        if reference.arithmetic.main == STRICT or (known and not precise):
            return None
        with reference.arithmetic.switched(STRICT):
            return reference.outputs(copied(inputs))

    def learn_rounding(self, fp32: list[Any]) -> bool:
        """Learn the error of the reference's own rounding on the problem's inputs; return whether it was unknown.

        It exceeds the tolerance where small results are differences of larger numbers.
        """
        return self.exactness.learn_rounding(self._reference.model, self._reference.inputs, fp32)

    def precise_verdict(
        self, expected: list[Any], actual: list[Any], fp32: list[Any] | None, allowed: Allowed
    ) -> Message:
        """Compare a correct result with fp64, and with trivial outputs."""
        reference = self._reference
        verdict = self.exactness.compare(reference.model, reference.inputs, expected, actual, fp32)
        trivial = TrivialOutput.of(actual, expected, reference.inputs)
        return {
            **verdict,
            "trivial_outputs": passing_trivial_outputs(expected, reference.inputs, allowed),
            "trivial_output": str(trivial) if trivial else None,
        }

    def _forgiven(self, number: int, expected: Any, actual: Any) -> Any:
        """Return an output with the expected values where rounding decides the result."""
        reference = self._reference
        assert reference.drawn is not None
        distribution = reference.drawn[1]
        if not expected.is_floating_point():
            return actual
        tolerance = reference.tolerances.get(dtype_name(expected), EXACT)
        narrow, in_full = expected.element_size() <= NARROW_BYTES, in_fp64(reference.model)
        try:
            if distribution in MAGNITUDES:
                again = lambda given: reference.outputs(given)[number]  # noqa: E731
                left = settled(again, reference.inputs, expected, actual, tolerance.tightest)
            elif narrow or distribution == STRUCTURE:
                changes = amplified_error(in_full, reference.inputs, number, tolerance.relative)
                left = forgive(expected, actual, changes)
            else:
                return actual
            if dtype_name(expected) not in NARROW or distribution not in (*self.exactness.rough, *MAGNITUDES):
                return left
            exact = as_real(in_full(reference.inputs)[number])
            close = rows_are_close(exact, expected, left, TIMES_TORCH, FLOOR[dtype_name(expected)])
            return expected if close else left
        except (RuntimeError, MemoryError):  # too little memory for another run in fp64
            return actual
