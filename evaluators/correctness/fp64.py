"""Accuracy of a result: its error against the reference in fp64, beside torch's own error."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from ...core import Status, Tolerance
from ..workers.channel import Message
from ..workers.modules import outputs_of
from .compare import EXACT, dtype_name, relative_error

FLOOR = {"float64": 1e-11, "float32": 3e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
"""Root mean square errors above any summation order's and below the next lower precision's: TF32 has 2e-4 and more,
bf16 2e-3, fp8 3e-2."""
TIMES_TORCH = 8.0
"""Allowed multiple of torch's error in the precision of the problem, since a candidate may round differently: of the
largest error, and of the root mean square where torch itself exceeds the floor."""
TIMES_DEFAULT = 5.0
"""Allowed multiple of torch's error where its defaults compute in less than fp32: of the largest error, and of the
root mean square. TF32 keeps 10 bits of the mantissa. A candidate whose operands are cut off there, as tensor cores do
with fp32 operands, instead of being rounded, has 2.6 times the error and differs from the rounded result by up to 3.7
times the largest one; bf16, which keeps 7 bits, has 8 times the error and is refused (a test computes these)."""
COPES = 0.1
"""A distribution of inputs is used only if torch's own largest error is below this share of the tolerance."""


class Fp64Comparison:
    """One problem's reference in fp64; empty where it cannot be computed in fp64."""

    def __init__(self) -> None:
        self._rounding: dict[str | None, float] = {}
        self._default: dict[str | None, float] = {}
        self._possible = True

    def slack(self, distribution: str | None) -> float:
        """Return the allowed multiple of torch's largest error so far, relative to the root mean square of the result.

        Its error is that in the precision of the problem, or the one that its defaults have where the reference
        computes with them: what gives more.
        """
        of_fp32 = TIMES_TORCH * self._rounding.get(distribution, 0.0)
        return max(of_fp32, TIMES_DEFAULT * self._default.get(distribution, 0.0))

    def knows(self, distribution: str | None) -> bool:
        """Return whether the error of torch's defaults on such inputs is known."""
        return distribution in self._default

    def learn(
        self,
        exact: Sequence[Any] | None,
        fp32: Sequence[Any] | None,
        expected: Sequence[Any],
        distribution: str | None,
    ) -> None:
        """Remember the error of torch's defaults; `fp32` is None where the reference computes in fp32 itself.

        `exact` is the result in fp64, or the one in fp32 where there is none: far closer to it than TF32 is.
        """
        if exact is None or fp32 is None:
            return
        pairs = [(e, one) for e, one in zip(exact, expected, strict=True) if one.is_floating_point()]
        largest = max((relative_error(e, one)[1] for e, one in pairs), default=0.0)
        self._default[distribution] = max(self._default.get(distribution, 0.0), largest)

    def of(self, model: Any, inputs: Sequence[Any], distribution: str | None) -> list[Any] | None:
        """Return the reference's outputs in fp64; None where that is impossible, or failed before."""
        if not self._possible or (distribution is not None and distribution in self._rounding):
            return None
        import torch

        try:
            exact = outputs_of(copy.deepcopy(model).double()(*(_double(value) for value in inputs)))
        except (RuntimeError, TypeError, MemoryError):  # own casts, no fp64 kernel, or no memory
            exact = []
        # Indices and masks stay exact as they are; at least one result must gain from fp64.
        fit = [isinstance(one, torch.Tensor) and one.dtype in (torch.float64, *_whole_numbers()) for one in exact]
        self._possible = all(fit) and any(one.dtype == torch.float64 for one in exact)
        return exact if self._possible else None

    def copes(self, model: Any, inputs: Sequence[Any], distribution: str, tolerances: Mapping[str, Tolerance]) -> bool:
        """Return whether the reference itself is finite and accurate on such inputs; remembers its error."""
        import torch

        expected = outputs_of(model(*copied(inputs)))
        if not all(isinstance(one, torch.Tensor) and bool(torch.isfinite(one).all()) for one in expected):
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

    def compare(
        self,
        exact: Sequence[Any] | None,
        expected: Sequence[Any],
        actual: Sequence[Any],
        fp32: Sequence[Any] | None = None,
    ) -> Message:
        """Return the errors of candidate and torch against fp64; wrong_value when the candidate has a lower precision.

        `fp32` is torch's result in the precision of the problem where `expected` is the one of its defaults. Empty
        where there is no fp64 result.
        """
        if exact is None:
            return {}
        sides = zip(exact, expected, actual, expected if fp32 is None else fp32, strict=True)
        floating = [four for four in sides if four[1].is_floating_point()]
        own = [relative_error(e, one)[0] for e, _, one, _ in floating]
        torchs = [relative_error(e, one) for e, _, _, one in floating]
        defaults = [0.0 if fp32 is None else relative_error(e, one)[0] for e, one, _, _ in floating]
        self._rounding[None] = max(self._rounding.get(None, 0.0), *(largest for _, largest in torchs))
        shown = [max(rms, default) for (rms, _), default in zip(torchs, defaults, strict=True)]
        found: Message = {"error_fp64": max(own), "torch_error_fp64": max(shown)}
        for mine, (torch_rms, _), default, (_, one, _, _) in zip(own, torchs, defaults, floating, strict=True):
            dtype = dtype_name(one)
            limit = max(TIMES_TORCH * torch_rms, TIMES_DEFAULT * default, FLOOR.get(dtype, 0.0))
            if mine > limit and dtype in FLOOR:
                than = dtype if fp32 is None else f"PyTorch's defaults for {dtype}"
                message = (
                    f"less exact than {than}: the error against fp64 is {mine:.1e} of the result (root mean square), "
                    f"torch's is {max(torch_rms, default):.1e}; compute in the precision of the problem"
                )
                return {**found, "status": Status.WRONG_VALUE, "message": message}
        return found


def _double(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.to(torch.float64, copy=True)
    return _copy(value)


def _whole_numbers() -> tuple[Any, ...]:
    import torch

    return torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool


def copied(inputs: Sequence[Any]) -> list[Any]:
    """Return inputs that a model may write to."""
    return [_copy(value) for value in inputs]


def _copy(value: Any) -> Any:
    import torch

    return value.clone() if isinstance(value, torch.Tensor) else value
