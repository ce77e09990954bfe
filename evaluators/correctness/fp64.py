"""Accuracy of a result: its error against the reference in fp64, compared with torch's own error."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core import Status, Tolerance
from ...core.text import first_line
from ..workers.channel import Message
from ..workers.modules import outputs_of
from .compare import EXACT, dtype_name
from .distributions import MAGNITUDES, same_layout
from .eight_bit import widened
from .errors import RelativeError, pieces, relative_difference
from .exact_parts import double, exact_parts
from .row_limits import COUNTED, counted_share

FLOOR = {"float64": 1e-11, "float32": 1.2e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
"""Root mean square errors above any summation order's and below the next lower precision's: TF32 has 2e-4 and more,
bf16 2e-3, fp8 3e-2. In fp32 131,072 products added one by one have 7e-6, three bf16 products 4e-6, operands of 15 bits
1.8e-5."""
TIMES_TORCH = 8.0
"""Allowed multiple of torch's error in the precision of the problem, since a candidate may round differently: of the
largest error, and of the root mean square where torch itself exceeds the floor."""
TIMES_DEFAULT = 5.0
"""Allowed multiple of torch's error where its defaults compute in less than fp32: of the largest error, and of the
root mean square. TF32 keeps 10 bits of the mantissa. A candidate whose operands are cut off there, as tensor cores do
with fp32 operands, instead of being rounded, has 2.6 times the error and differs from the rounded result by up to 3.7
times the largest one; bf16, which keeps 7 bits, has 8 times the error and is refused (a test computes these)."""
WIDE_BYTES = 4
"""Bytes of an fp32 element."""
NARROW, NARROW_BYTES = ("float16", "bfloat16"), 2
"""Results in these depend on rounding with any inputs, as attention does where two scores are nearly equal."""
COPES = 0.1
"""A distribution of inputs is used only if torch's own largest error is below this share of the tolerance. Rounding to
16 bits mostly exceeds it: correct kernels that round elsewhere differ by more than a tolerance can say."""


ROUGH = 0.05
"""Where rounding to 16 bits exceeds that share, inputs are used if torch's root mean square error is below this one:
where elements differ by too much, the errors of whole rows decide then."""


class Fp64Comparison:
    """One problem's reference in fp64; says nothing where it cannot be computed in fp64."""

    def __init__(self) -> None:
        self._rounding: dict[str | None, float] = {}
        self._default: dict[str | None, float] = {}
        self._default_rms: dict[int, float] = {}
        self._limits: dict[int, tuple[float, float]] = {}
        self.obstacle: str | None = None
        """Why the reference cannot be computed in fp64."""

    def slack(self, distribution: str | None) -> float:
        """Return the allowed multiple of torch's largest error so far, relative to the root mean square of the result.

        Its error is that in the precision of the problem, or the one that its defaults have where the reference
        computes with them: what gives more.
        """
        of_fp32 = TIMES_TORCH * self._rounding.get(distribution, 0.0)
        return max(of_fp32, TIMES_DEFAULT * self._default.get(distribution, 0.0))

    @property
    def knows_defaults(self) -> bool:
        """Whether the error of torch's defaults on the problem's own inputs is known."""
        return None in self._default

    def learn(self, fp32: Sequence[Any] | None, expected: Sequence[Any], distribution: str | None) -> None:
        """Remember the error that torch's defaults have, or allow, against its result in fp32, which is far more exact.

        `fp32` is None where the reference computes in fp32 itself.
        """
        if fp32 is None:
            return
        largest = self._default.get(distribution, 0.0)
        for output, (exact, nominal) in enumerate(zip(_floating(fp32), _floating(expected), strict=True)):
            error = RelativeError()
            error.add(exact, nominal)
            largest = max(largest, error.largest)
            if distribution is None:
                self._default_rms[output] = max(self._default_rms.get(output, 0.0), error.root_mean_square)
        self._default[distribution] = largest

    def learn_rounding(self, model: Any, inputs: Sequence[Any], fp32: Sequence[Any]) -> bool:
        """Remember torch's error on the problem's own inputs, where it is not known; return whether that was so.

        Not of narrow results: the error of rounding them says nothing about their computation.
        """
        if None in self._rounding or any(item.element_size() < WIDE_BYTES for item in _floating(fp32)):
            return False
        found = self._errors(model, inputs, fp32)
        if found is None:
            return False
        self._rounding[None] = max((error.largest for error in found.of[0]), default=0.0)
        return True

    def copes(self, model: Any, inputs: Sequence[Any], distribution: str, tolerances: Mapping[str, Tolerance]) -> bool:
        """Return whether the reference accepts such inputs, is finite and accurate; remembers its error."""
        import torch

        expected = outputs_where_accepted(model, inputs)
        if expected is None or not all(isinstance(item, torch.Tensor) and _is_finite(item) for item in expected):
            return False
        found = self._errors(model, inputs, expected)
        if found is None or not found.same_indices:
            return False
        errors = [(error.largest, nominal) for error, nominal in zip(found.of[0], _floating(expected), strict=True)]
        self._rounding[distribution] = max(error for error, _ in errors)
        near = all(error <= COPES * tolerances.get(dtype_name(nominal), EXACT).tightest for error, nominal in errors)
        narrow = all(dtype_name(nominal) in NARROW for _, nominal in errors)
        if narrow and (near or distribution not in MAGNITUDES):
            return all(error.root_mean_square <= ROUGH for error in found.of[0])
        return near

    def copes_by_row(self, model: Any, inputs: Sequence[Any], expected: Sequence[Any]) -> bool:
        """Return whether most rows of each output are finite and near fp64, and indices are those of fp64."""
        import torch

        if self.obstacle is not None or not all(isinstance(item, torch.Tensor) for item in expected):
            return False
        try:
            exact = in_fp64(model)(inputs)
        except (RuntimeError, TypeError, MemoryError):
            return False
        if _obstacle(exact, expected) is not None:
            return False
        return all(
            counted_share(wanted, value, inputs) >= COUNTED if value.is_floating_point() else _equal(value, wanted)
            for value, wanted in zip(exact, expected, strict=True)
        )

    def is_surely_exact(self, expected: Sequence[Any], actual: Sequence[Any]) -> bool:
        """Return whether `compare` would find nothing, without a result in fp64: a candidate's error against fp64 is at
        most its difference from torch's result and torch's error together, as large as that was before.
        """
        if self.obstacle is not None:
            return True
        for output, (nominal, got) in enumerate(zip(_floating(expected), _floating(actual), strict=True)):
            if dtype_name(nominal) not in FLOOR:
                continue
            torchs_error, limit = self._limits.get(output, (0.0, 0.0))
            if not relative_difference(nominal, got) + torchs_error <= limit:
                return False
        return True

    def compare(
        self,
        model: Any,
        inputs: Sequence[Any],
        expected: Sequence[Any],
        actual: Sequence[Any],
        fp32: Sequence[Any] | None = None,
        least_limit: Callable[[int, str], float] = lambda number, dtype: 0.0,
    ) -> Message:
        """Return the errors of candidate and torch against fp64; wrong_value when the candidate has a lower precision.

        `fp32` is torch's result in the precision of the problem where `expected` is the one of its defaults;
        `least_limit` is what an output of this number and dtype may have at least. Empty where there is no fp64 result.
        """
        errors = self._errors(model, inputs, expected if fp32 is None else fp32, actual, expected)
        if errors is None:
            return {}
        torchs, own, defaults = errors.of
        self._rounding[None] = max(self._rounding.get(None, 0.0), *(error.largest for error in torchs))
        shown = [
            max(torch.root_mean_square, default.root_mean_square)
            for torch, default in zip(torchs, defaults, strict=True)
        ]
        found: Message = {
            "error_fp64": max(error.root_mean_square for error in own),
            "torch_error_fp64": max(shown),
        }
        for output, nominal in enumerate(_floating(expected)):
            mine, torch_rms = own[output].root_mean_square, torchs[output].root_mean_square
            default = 0.0
            if fp32 is not None:
                default = max(defaults[output].root_mean_square, self._default_rms.get(output, 0.0))
            dtype = dtype_name(nominal)
            limit = max(TIMES_TORCH * torch_rms, TIMES_DEFAULT * default, FLOOR.get(dtype, 0.0))
            limit = max(limit, least_limit(output, dtype))
            known, least = self._limits.get(output, (0.0, limit))
            error = torch_rms if fp32 is None else defaults[output].root_mean_square
            self._limits[output] = max(known, error), min(least, limit)
            if mine > limit and dtype in FLOOR:
                than = dtype if fp32 is None else f"PyTorch's defaults for {dtype}"
                message = (
                    f"less exact than {than}: the error against fp64 is {mine:.1e} of the result (root mean square), "
                    f"torch's is {max(torch_rms, default):.1e}, and {limit:.1e} is allowed; compute in the precision "
                    "of the problem"
                )
                return {**found, "status": Status.WRONG_VALUE, "message": message}
        return found

    def _errors(
        self, model: Any, inputs: Sequence[Any], expected: Sequence[Any], *others: Sequence[Any]
    ) -> _Errors | None:
        """Compare torch's result, and others, with fp64; None where fp64 is impossible, or was before."""
        if self.obstacle is not None:
            return None
        sides = [list(item) for item in (expected, *others)]
        errors = [[RelativeError() for _ in _floating(expected)] for _ in sides]
        same = True
        try:
            for part, exact in exact_parts(model, inputs, expected):
                if (obstacle := _obstacle(exact, expected)) is not None:
                    self.obstacle = obstacle
                    return None
                for value, *results in zip(exact, *sides, strict=True):
                    same = same and (value.is_floating_point() or _equal(value, results[0][part]))
                for side, results in zip(errors, sides, strict=True):
                    for error, value, result in zip(side, _floating(exact), _floating(results), strict=True):
                        error.add(value, result[part])
        except (RuntimeError, TypeError, MemoryError) as error:  # own casts, no fp64 kernel, or no memory
            self.obstacle = first_line(f"{type(error).__name__}: {error}")
            return None
        return _Errors(errors, same)


@dataclass(frozen=True)
class _Errors:
    """The errors of each side's floating outputs, torch's first."""

    of: list[list[RelativeError]]
    same_indices: bool
    """Whether torch's indices and masks are those of fp64."""


def _obstacle(exact: Sequence[Any], expected: Sequence[Any]) -> str | None:
    """Return why these outputs are not an fp64 result; None where they are.

    Indices and masks stay exact as they are; at least one result must gain from fp64.
    """
    import torch

    fit = (torch.float64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
    if not all(isinstance(item, torch.Tensor) and item.dtype in fit for item in exact):
        return "it returns another precision than that of its inputs"
    if [item.is_floating_point() for item in exact] != [item.is_floating_point() for item in expected]:
        return "it returns other kinds of outputs"
    return None if _floating(exact) else "it returns no floating-point numbers"


def _floating(outputs: Sequence[Any]) -> list[Any]:
    return [output for output in outputs if output.is_floating_point()]


def _is_finite(tensor: Any) -> bool:
    return all(bool(widened(part).isfinite().all()) for _, part, _ in pieces(tensor, tensor))


def _equal(first: Any, second: Any) -> bool:
    return bool(first.shape == second.shape) and all(bool((a == b).all()) for _, a, b in pieces(first, second))


def outputs_where_accepted(model: Any, inputs: Sequence[Any]) -> list[Any] | None:
    """Return the reference's outputs; None where it raises an exception for such inputs. Raises for lack of memory."""
    import torch

    try:
        return outputs_of(model(*copied(inputs)))
    except (RuntimeError, ValueError, IndexError, AssertionError) as error:
        if isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error):
            raise
        return None


def in_fp64(model: Any) -> Callable[[Sequence[Any]], list[Any]]:
    """Return the reference in fp64, as a function of its inputs."""
    exact = copy.deepcopy(model).double()
    return lambda inputs: outputs_of(exact(*(double(value) for value in inputs)))


def copied(inputs: Sequence[Any]) -> list[Any]:
    """Return inputs that a model may write to."""
    return [_copy(value) for value in inputs]


def _copy(value: Any) -> Any:
    import torch

    return same_layout(value) if isinstance(value, torch.Tensor) else value
