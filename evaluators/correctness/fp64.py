"""Accuracy of a result: its error against the reference in fp64, beside torch's own error."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...core import Status, Tolerance
from ..workers.channel import Message
from ..workers.modules import outputs_of
from .compare import EXACT, dtype_name, relative_error
from .distributions import same_layout
from .eight_bit import widened

FLOOR = {"float64": 1e-11, "float32": 3e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
"""Root mean square errors above any summation order's and below the next lower precision's: TF32 has 2e-4 and more,
bf16 2e-3, fp8 3e-2."""
TIMES_TORCH = 8.0
"""Allowed multiple of torch's error, where torch itself exceeds the floor."""
COPES = 0.1
"""A distribution of inputs is used only if torch's own largest error is below this share of the tolerance. Rounding to
16 bits mostly exceeds it: correct kernels that round elsewhere differ by more than a tolerance can say."""


class Fp64Comparison:
    """One problem's reference in fp64; empty where it cannot be computed in fp64."""

    def __init__(self) -> None:
        self._rounding: dict[str | None, float] = {}
        self._possible = True

    def rounding(self, distribution: str | None) -> float:
        """Return torch's largest error seen so far, relative to the root mean square of the result."""
        return self._rounding.get(distribution, 0.0)

    def of(self, model: Any, inputs: Sequence[Any], distribution: str | None) -> list[Any] | None:
        """Return the reference's outputs in fp64; None where that is impossible, or failed before."""
        if not self._possible or (distribution is not None and distribution in self._rounding):
            return None
        import torch

        try:
            exact = in_fp64(model)(inputs)
        except (RuntimeError, TypeError, MemoryError):  # own casts, no fp64 kernel, or no memory
            exact = []
        # Indices and masks stay exact as they are; at least one result must gain from fp64.
        fit = [isinstance(one, torch.Tensor) and one.dtype in (torch.float64, *_whole_numbers()) for one in exact]
        self._possible = all(fit) and any(one.dtype == torch.float64 for one in exact)
        return exact if self._possible else None

    def copes(self, model: Any, inputs: Sequence[Any], distribution: str, tolerances: Mapping[str, Tolerance]) -> bool:
        """Return whether the reference accepts such inputs, is finite and accurate; remembers its error."""
        import torch

        expected = outputs_where_accepted(model, inputs)
        if expected is None or not all(
            isinstance(one, torch.Tensor) and bool(torch.isfinite(widened(one)).all()) for one in expected
        ):
            return False
        exact = self.of(model, inputs, distribution)
        if exact is None:
            return False
        pairs = list(zip(exact, expected, strict=True))
        if not all(torch.equal(e, one) for e, one in pairs if not one.is_floating_point()):
            return False  # rounding decides which index or flag it is
        errors = [(relative_error(e, one)[1], one) for e, one in pairs if one.is_floating_point()]
        self._rounding[distribution] = max(error for error, _ in errors)
        return all(error <= COPES * min(tolerances.get(dtype_name(one), EXACT)) for error, one in errors)

    def compare(self, exact: Sequence[Any] | None, expected: Sequence[Any], actual: Sequence[Any]) -> Message:
        """Return the errors of candidate and torch against fp64; wrong_value when the candidate has a lower precision.

        Empty where there is no fp64 result.
        """
        if exact is None:
            return {}
        floating = [three for three in zip(exact, expected, actual, strict=True) if three[1].is_floating_point()]
        own = [relative_error(e, one)[0] for e, _, one in floating]
        torchs = [relative_error(e, one) for e, one, _ in floating]
        self._rounding[None] = max(self.rounding(None), *(largest for _, largest in torchs))
        found: Message = {"error_fp64": max(own), "torch_error_fp64": max(rms for rms, _ in torchs)}
        for mine, (torch_rms, _), (_, one, _) in zip(own, torchs, floating, strict=True):
            dtype = dtype_name(one)
            limit = max(TIMES_TORCH * torch_rms, FLOOR.get(dtype, 0.0))
            if mine > limit and dtype in FLOOR:
                message = (
                    f"less exact than {dtype}: the error against fp64 is {mine:.1e} of the result (root mean square), "
                    f"torch's is {torch_rms:.1e}; compute in the precision of the problem"
                )
                return {**found, "status": Status.WRONG_VALUE, "message": message}
        return found


def outputs_where_accepted(model: Any, inputs: Sequence[Any]) -> list[Any] | None:
    """Return the reference's outputs; None where it raises an exception for such inputs. Raises for lack of memory."""
    import torch

    try:
        return outputs_of(model(*[_copy(value) for value in inputs]))
    except (RuntimeError, ValueError, IndexError, AssertionError) as error:
        if isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error):
            raise
        return None


def in_fp64(model: Any) -> Callable[[Sequence[Any]], list[Any]]:
    """Return the reference in fp64, as a function of its inputs."""
    double = copy.deepcopy(model).double()
    return lambda inputs: outputs_of(double(*(_double(value) for value in inputs)))


def _double(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.to(torch.float64, copy=True)
    return _copy(value)


def _whole_numbers() -> tuple[Any, ...]:
    import torch

    return torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool


def _copy(value: Any) -> Any:
    import torch

    return same_layout(value) if isinstance(value, torch.Tensor) else value
