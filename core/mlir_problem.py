"""A problem as a function of an MLIR module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from .errors import ProblemError
from .mlir_operation import Operation, Step, TensorType, run
from .problem import DEFAULT_WORKLOAD, Problem
from .text import digest_of

if TYPE_CHECKING:
    from .mlir_operation import Array


@dataclass(frozen=True)
class MlirProblem(Problem):
    """One function of a module with static shapes: IREE's default compilation of it is what kernels are compared with.

    `tuners.mlir.analysis` makes it of a module's text.
    """

    source: str
    """The module's text, as it was given."""
    function: str
    """The function that is called, without the `@`."""
    inputs: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    prepared: str
    """The module as schedules are attached to it: operations whose schedules IREE would drop are dispatches."""
    operations: tuple[Operation, ...]
    """Those that can be scheduled, in order, as they stand in `prepared`."""
    remarks: tuple[str, ...] = ()
    """Why others of the function cannot, one line each."""
    steps: tuple[Step, ...] | None = None
    """The whole function for NumPy; None where it has a step that is not known to it."""
    returns: tuple[int, ...] = ()
    """The numbers of the values that it returns: inputs first, then steps."""

    @classmethod
    def of(cls, problem: Problem) -> MlirProblem:
        """Return the problem as an `MlirProblem`; raises `ProblemError` for any other kind."""
        if not isinstance(problem, MlirProblem):
            raise ProblemError(f"problem {problem.id} is no MLIR module, which IREE needs; use another evaluator")
        return problem

    @cached_property
    def digest(self) -> str:
        """Digest of the module and of the function's name."""
        return digest_of(f"{self.function}\0{self.source}")

    @property
    def workloads(self) -> Mapping[str, Mapping[str, Any]]:
        """The only one: the shapes that stand in the module."""
        return {DEFAULT_WORKLOAD: {}}

    @property
    def integers(self) -> Mapping[str, int]:
        """The loops' sizes: M, N, K where one operation can be scheduled, else matmul_0_M and so on."""
        alone = len(self.operations) == 1
        return {
            loop if alone else f"{operation.name}_{loop}": size
            for operation in self.operations
            for loop, size in operation.sizes.items()
        }

    def resized(self, workload: str, sizes: Mapping[str, Any]) -> Self:
        """Return the problem as it is; raises `ProblemError` for any size."""
        if sizes:
            raise ProblemError(f"the shapes of {self.name} stand in the module and cannot be set; edit the module")
        return replace(self, workload=workload, sizes=sizes)

    @property
    def flops(self) -> int:
        """Multiplications and additions of all operations that can be scheduled."""
        return sum(operation.flops for operation in self.operations)

    @property
    def traffic(self) -> int:
        """Bytes that a call must read and write at least."""
        return sum(type_.bytes for type_ in (*self.inputs, *self.results))

    def draw(self, seed: int) -> list[Array]:
        """Return random inputs, which are the same for the same seed.

        Floats are uniform in [-1, 1); those of 16 bits are multiples of a half, whole numbers are from -4 to 4, so that
        sums of many products are exact in whatever order they are added, and in whatever parts: IREE keeps the sum of
        a tile of K in the result's type, which would make the default module's own error 1 % in bf16 where K is 1024.
        """
        import numpy as np

        rng = np.random.default_rng(seed)
        drawn = []
        for type_ in self.inputs:
            dtype = type_.dtype
            if dtype.kind == "i":
                values: Array = rng.integers(-4, 5, type_.shape)
            elif dtype.itemsize == 2:
                values = rng.integers(-2, 3, type_.shape) / 2
            else:
                values = rng.uniform(-1, 1, type_.shape)
            drawn.append(values.astype(dtype))
        return drawn

    def reference(self, inputs: Sequence[Array]) -> list[Array] | None:
        """Return the results by NumPy, in double precision, rounded once per operation; None where it cannot."""
        return None if self.steps is None else run(self.steps, self.returns, inputs)
