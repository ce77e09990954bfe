"""The allowed error of each row on its own, where the rows of one output differ in size and conditioning.

A tolerance that is relative to the whole output would hide an error in quiet rows behind the loud ones. Where a row
exceeds its own, the reference's conditioning is measured: how far it moves on inputs that are changed by as much as
rounding does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...core import Status, Tolerance
from ..workers.channel import Message
from .conditioning import ALLOWED, ROUNDING
from .errors import as_real
from .mixed_rows import main_input

TIMES = 8.0
"""Allowed multiple of the reference's own largest error in a row."""
DRAWS = 3
"""Changes of the inputs by rounding whose effects count; one more sets denormal numbers to zero."""
LONG = 4096
"""Elements of a sample whose sum fp32 rounds by no more than `ROUNDING`; of longer ones that grows with the root."""
FURTHER_DRAWS = 12
"""Roundings that are tried where rows of 16 bits are still wrong."""
DECIDED_ONE_IN = 128
"""They are not tried where more rows than one of this many are wrong: of a correct kernel rounding decides few."""
STEEP = 8.0
"""A row changes altogether where another rounding moves it by this many times as much as the reference's own does, and
as a reference that is accurate may be off."""
EXTREME, MARGIN = 1e10, 4096.0
"""A kernel's sums of squares may overflow, or underflow, before the reference's means do: rows in which the reference
is inaccurate once numbers beyond `EXTREME`, or below its inverse, are this many times as extreme are not compared."""
COUNTED = 0.6
"""A distribution is of use where the reference is finite and accurate in at least this share of the rows."""
ACCURATE = 0.02
"""The reference is accurate in a row with this error, relative to the row's root mean square."""
CONSTANTS = 100.0
"""Rounding steps of 1 that may be lost in a reference with constants that matter, as exp(x) - 1 loses them, or a
normalized row that a bias nearly cancels."""
NARROW_CONSTANTS = 4.0
"""The same where a result has 16 bits."""
DEGREES = (0, 1, 2)
"""A reference without such constants returns 2 ** degree times its result where the inputs are doubled."""
SAME = 1e-12

PIECE = 1 << 18
"""Elements that are compared at once, so that what is computed in between stays in a cache."""

Run = Callable[[Sequence[Any]], list[Any]]


@dataclass(frozen=True)
class ReferenceRuns:
    """The reference in its own precision and in fp64, and its inputs."""

    own: Run
    exact: Run
    inputs: Sequence[Any]
    rounded: Run | None = None
    """The reference with another rounding that is allowed, too; None if there is none."""
    elsewhere: Callable[[int], list[Any]] | None = None
    """By number of a draw, the reference on these inputs with each operator's result rounded another way."""

    @property
    def main(self) -> Any:
        """The input whose rows are mixed."""
        return self.inputs[main_input(self.inputs)]


def rows_of(output: Any, axes: int) -> Any:
    """Return an output with one line for each row: the last axis, or single elements where one of the `axes` of the
    inputs was reduced."""
    real = as_real(output)
    return real.reshape(-1, 1) if real.dim() < max(2, axes) else real.reshape(-1, max(1, real.shape[-1]))


def counted_share(expected: Any, exact: Any, inputs: Sequence[Any]) -> float:
    """Return the share of the rows in which the reference is finite and near its fp64 result."""
    axes = inputs[main_input(inputs)].dim()
    near = _is_accurate(rows_of(expected, axes), rows_of(exact, axes))
    return float(near.double().mean()) if len(near) else 0.0


def compare_rows(
    runs: ReferenceRuns, number: int, expected: Any, actual: Any, tolerance: Tolerance, which: str = ""
) -> Message:
    """Compare one floating output row by row; returns what `compare_tensor` does.

    Rows in which the reference is not finite count for nothing.
    """
    rows = partial(rows_of, axes=runs.main.dim())
    exact = rows(runs.exact(runs.inputs)[number])
    theirs, size = _errors(rows(expected), exact)
    if runs.rounded is not None:
        theirs = theirs.maximum(_errors(rows(runs.rounded(runs.inputs)[number]), exact)[0])
    errors, _ = _errors(rows(actual), exact)
    finite = theirs.isfinite()
    allowed = tolerance.absolute * size + TIMES * theirs + _smallest(expected) + _flushed(runs.main)
    suspicious = (finite & ~(errors <= allowed)).nonzero()[:, 0]
    metrics = _metrics(errors[finite], size[finite], tolerance)
    if not len(suspicious):
        return {"status": Status.OK, "message": "", **metrics}
    got, wanted, limits = rows(actual)[suspicious].double(), exact[suspicious], allowed[suspicious, None]
    error = (got - wanted).abs().nan_to_num(nan=math.inf)
    wrong = error > limits + tolerance.relative * wanted.abs()
    if wrong.any():
        limits = limits + _of_rounding(runs, number, expected, exact, tolerance.relative)[suspicious, None]
        wrong = error > limits + tolerance.relative * wanted.abs()
    few = int(wrong.any(1).sum()) <= max(1, len(theirs) // DECIDED_ONE_IN)
    for draw in range(FURTHER_DRAWS if few and runs.elsewhere is not None and expected.element_size() == 2 else 0):
        if wrong.any():
            decided = _decided_by_rounding(runs, number, rows, exact, theirs, size, draw)
            limits = limits.maximum(decided[suspicious, None])
            wrong = error > limits + tolerance.relative * wanted.abs()
    if not wrong.any():
        return {"status": Status.OK, "message": "", **metrics}
    line, column = wrong.nonzero()[0].tolist()
    row = int(suspicious[line])
    message = (
        f"{which}{int(wrong.any(1).sum())} of {len(theirs)} rows are wrong; the first is row {row}: "
        f"{float(got[line, column]):.6g} against {float(wanted[line, column]):.6g} in fp64, where PyTorch's own error "
        f"is {float(theirs[row]):.3g} and {float(limits[line, 0]):.3g} is allowed"
    )
    return {"status": Status.WRONG_VALUE, "message": message, **metrics}


def _errors(rows: Any, exact: Any) -> tuple[Any, Any]:
    """Return the largest error in each row, NaN where one is, and the root mean square of the exact values."""
    import torch

    step = max(1, PIECE // max(1, rows.shape[1]))
    errors, sizes = [], []
    for start in range(0, max(1, len(rows)), step):  # one piece of no rows, too
        wanted = exact[start : start + step].double()
        errors.append((rows[start : start + step].double() - wanted).abs_().amax(1))
        sizes.append(torch.linalg.vector_norm(wanted, dim=1) / wanted.shape[1] ** 0.5)
    return torch.cat(errors), torch.cat(sizes)


def _is_accurate(rows: Any, exact: Any) -> Any:
    errors, size = _errors(rows, exact)
    return errors <= ACCURATE * size + _smallest(rows)  # not where it is NaN


def _metrics(errors: Any, size: Any, tolerance: Tolerance) -> Message:
    largest, scale = (float(item[item.isfinite()].max()) if item.isfinite().any() else 0.0 for item in (errors, size))
    return {
        "max_abs_error": largest,
        "max_rel_error": largest / scale if scale else 0.0,
        "tolerance": tolerance.relative,
    }


def _of_rounding(runs: ReferenceRuns, number: int, expected: Any, exact: Any, most: float) -> Any:
    """Return what rounding may change in each row: a relative change of the inputs, by `most` at most.

    Infinite in rows that are not to be compared.
    """
    import torch

    rows = partial(rows_of, axes=runs.main.dim())
    relative = min(most, ROUNDING * max(1.0, (_length(runs.main) / LONG) ** 0.5))
    found = torch.zeros(len(exact), dtype=torch.float64, device=exact.device)
    for draw in range(DRAWS + 1):
        inputs = [_rounded(value, relative, draw) for value in runs.inputs]
        again = rows(runs.exact(inputs)[number])
        change, error = _errors(again, exact)[0], _errors(rows(runs.own(inputs)[number]), again)[0]
        found = torch.maximum(found, (ALLOWED * change + TIMES * error).nan_to_num(nan=math.inf))
    if not _is_homogeneous(runs, number, exact):
        steps = CONSTANTS if expected.element_size() > 2 else NARROW_CONSTANTS
        found += steps * torch.finfo(expected.dtype).eps
    inputs = [_more_extreme(value) for value in runs.inputs]
    accurate = _is_accurate(rows(runs.own(inputs)[number]), rows(runs.exact(inputs)[number]))
    return found.where(accurate, math.inf)


def _decided_by_rounding(
    runs: ReferenceRuns, number: int, rows: Callable[[Any], Any], exact: Any, theirs: Any, size: Any, draw: int
) -> Any:
    """Return what is allowed in rows that change altogether where the reference rounds another way; zero in others."""
    assert runs.elsewhere is not None
    errors, _ = _errors(rows(runs.elsewhere(draw)[number]), exact)
    steep = STEEP * (theirs + ACCURATE * size)
    return (ALLOWED * errors).where(errors > steep, 0.0).nan_to_num(nan=0.0, posinf=0.0)


def _is_homogeneous(runs: ReferenceRuns, number: int, exact: Any) -> bool:
    """Return whether rows scale with the inputs, so that small numbers are as good as others."""
    shape = runs.main.shape
    doubled = [value * 2 if _is_floating(value) and value.shape == shape else value for value in runs.inputs]
    changed = rows_of(runs.exact(doubled)[number], len(shape))
    counted = exact.isfinite() & changed.isfinite()
    return any(bool(((changed - 2**degree * exact).abs() <= SAME * changed.abs())[counted].all()) for degree in DEGREES)


def _more_extreme(value: Any) -> Any:
    import torch

    if not _is_floating(value):
        return value
    size = value.abs()
    return torch.where(size > EXTREME, value * MARGIN, torch.where(size < 1 / EXTREME, value / MARGIN, value))


def _rounded(value: Any, relative: float, draw: int) -> Any:
    """Return a floating tensor of the same dtype, changed by the relative amount; the draw 0 flushes denormals."""
    import torch

    if not _is_floating(value):
        return value
    limits = torch.finfo(value.dtype)
    if draw == 0:
        return value.where(value.abs() >= limits.tiny, 0.0)
    generator = torch.Generator(value.device).manual_seed(draw)
    wide = value if value.dtype == torch.float64 else value.float()
    signs = torch.randint(0, 2, value.shape, generator=generator, device=value.device, dtype=torch.int8) * 2 - 1
    return (wide * (1 + max(relative, limits.eps) * signs.to(wide.dtype))).to(value.dtype)


def _is_floating(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _length(main: Any) -> int:
    """Return how many elements a sample has."""
    return int(main.numel() // max(1, len(main)) if main.dim() > 1 else main.numel())


def _flushed(main: Any) -> float:
    """Return what a sum may lose in parts that are set to zero because they are denormal, as a GPU's atomic additions
    in fp32 do: each less than the smallest normal number, of any sign."""
    import torch

    return float(torch.finfo(torch.float32).tiny * _length(main) ** 0.5) if main.dtype != torch.float64 else 0.0


def _smallest(like: Any) -> float:
    import torch

    return float(torch.finfo(like.dtype).tiny)
