"""The task of a sweep, and its limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core import Budget, Config, DeviceLimits, Kernel, MatrixProduct, TorchProblem, Value
from .. import catalogue
from .analytic import product_of
from .shapes import Shape


@dataclass(frozen=True)
class Task:
    """A kernel to tune, and the limits of each shape."""

    kernel: Kernel
    problem: Callable[[Shape], TorchProblem]
    limits: DeviceLimits
    dtype: str
    """Dtype or format of the operands."""
    element_bytes: int | float
    fixed: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    """Values of parameters that are not the kernel's own."""
    tuner: str = catalogue.DEFAULT
    seed: int = 0
    budget: Budget = field(default_factory=Budget)
    """Limits for each shape."""
    patience: int | None = None
    timed: bool = True
    """Whether the device can time the kernel; otherwise the analytic choice is only checked."""
    baseline: Callable[[Shape], tuple[TorchProblem, Kernel]] | None = None
    """A problem with cuBLAS as reference, if it is to be measured, and a kernel for it."""
    default: Config | None = None
    """The engine's config for a shape without an entry, if known."""
    library: Callable[[Shape], tuple[TorchProblem, Kernel]] | None = None
    """The same with the library's own product of such operands as reference (`library.NAME`)."""
    tolerances: Mapping[str, float] = field(default_factory=dict)
    """Tolerances that replace the problem's own, by dtype."""
    reference_is_baseline: bool = False
    """Whether the problem's own reference is cuBLAS."""

    @property
    def key(self) -> dict[str, Any]:
        """Return everything that results of one sweep must have in common."""
        fixed = {name: list(values) for name, values in self.fixed.items()}
        found = {"kernel": self.kernel.digest, "dtype": self.dtype, "tuner": self.tuner, "fixed": fixed}
        return {**found, **self.tolerances}

    def product(self, shape: Shape) -> MatrixProduct:
        """Return a shape as the model of tiles takes it."""
        return product_of(shape, self.element_bytes, self.dtype, self.kernel)
