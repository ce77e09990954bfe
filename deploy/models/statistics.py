"""Statistics of a tensor's values, and an expression that draws similar values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class TensorStatistics:
    """A range, and what makes values special; no data."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None
    """None for a contiguous tensor."""
    dtype: str
    least: float = 0.0
    greatest: float = 0.0
    mean: float = 0.0
    deviation: float = 0.0
    """Standard deviation of finite values."""
    zeros: float = 0.0
    """Share of zeros."""
    hidden: float = 0.0
    """Share of minus infinity, as in masks."""
    rising: bool = False
    """Whether integers never fall along the last dimension, as positions and offsets do."""

    @classmethod
    def of(cls, tensor: torch.Tensor, order: Sequence[int] | None = None) -> TensorStatistics:
        """Look at a tensor, with its dimensions in this order."""
        given = tensor if order is None else tensor.permute(*order)
        strides = None if given.is_contiguous() else tuple(given.stride())
        about: dict[str, Any] = {"sizes": tuple(given.shape), "strides": strides}
        about["dtype"] = str(given.dtype).removeprefix("torch.")
        if not given.numel() or given.is_complex():
            return cls(**about)
        values = given.detach().double() if given.is_floating_point() else given.detach().long()
        about["zeros"] = _share(values == 0)
        if not given.is_floating_point():
            rising = given.dim() > 0 and given.shape[-1] > 1 and bool((values.diff(dim=-1) >= 0).all())
            return cls(**about, least=float(values.min()), greatest=float(values.max()), rising=rising)
        finite = values[values.isfinite()]
        if finite.numel():
            about |= {"least": _short(finite.min()), "greatest": _short(finite.max()), "mean": _short(finite.mean())}
            about["deviation"] = _short(finite.std(correction=0))
        return cls(**about, hidden=_share(values == float("-inf")))

    @property
    def expression(self) -> str:
        """An expression over `torch` that draws such a tensor."""
        sizes, dtype = list(self.sizes), f"torch.{self.dtype}"
        drawn = self._drawn(sizes)
        if self.strides is None:
            return f"{drawn}.to({dtype})"
        return f"torch.empty_strided({self.sizes}, {self.strides}, dtype={dtype}).copy_({drawn})"

    def _drawn(self, sizes: list[int]) -> str:
        if self.dtype == "bool":
            return f"(torch.rand({sizes}) >= {self.zeros})"
        if not self.dtype.startswith(("float", "bfloat", "complex")):
            low, high = int(self.least), int(self.greatest)
            drawn = f"torch.randint({low}, {high + 1}, {sizes})"
            return f"{drawn}.sort(-1)[0]" if self.rising and low < high else drawn
        if self.deviation == 0:
            drawn = f"torch.full({sizes}, {self.mean})"
        else:
            drawn = f"(torch.randn({sizes}) * {self.deviation} + {self.mean}).clamp({self.least}, {self.greatest})"
            if self.zeros > _MANY:
                drawn = f"({drawn} * (torch.rand({sizes}) >= {self.zeros}))"
        return f'{drawn}.masked_fill(torch.rand({sizes}) < {self.hidden}, float("-inf"))' if self.hidden else drawn


_MANY = 0.01
"""A share of zeros that is no accident."""


def _share(flags: torch.Tensor) -> float:
    return round(float(flags.double().mean()), 3)


def _short(value: torch.Tensor) -> float:
    return float(f"{float(value):.3g}")
