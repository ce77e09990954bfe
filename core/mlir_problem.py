"""A problem that is a function of an MLIR module."""

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
    """One function of a module with static shapes. Kernels are compared with IREE's default compilation of it.

    `tuners.mlir.analysis` makes it from the text of a module.
    """

    source: str
    """The original text of the module."""
    function: str
    """Name of the called function, without the `@`."""
    inputs: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    prepared: str
    """The module prepared for schedules: operations whose schedules IREE would drop are dispatches of their own."""
    operations: tuple[Operation, ...]
    """The operations that can be scheduled, in the order of `prepared`."""
    remarks: tuple[str, ...] = ()
    """Reasons why other operations cannot be scheduled, one line each."""
    steps: tuple[Step, ...] | None = None
    """The whole function as steps for NumPy; None if it has an unsupported step."""
    returns: tuple[int, ...] = ()
    """Numbers of the returned values: inputs first, then steps."""

    @classmethod
    def of(cls, problem: Problem) -> MlirProblem:
        """Return the problem as an `MlirProblem`. Raises `ProblemError` for any other kind."""
        if not isinstance(problem, MlirProblem):
            raise ProblemError(f"problem {problem.id} is not an MLIR module, which IREE needs; use another evaluator")
        return problem

    @cached_property
    def digest(self) -> str:
        """Digest of the module and of the function's name."""
        return digest_of(f"{self.function}\0{self.source}")

    @property
    def workloads(self) -> Mapping[str, Mapping[str, Any]]:
        """The only workload: the shapes in the module."""
        return {DEFAULT_WORKLOAD: {}}

    @property
    def integers(self) -> Mapping[str, int]:
        """Sizes of the loops: M, N, K if one operation can be scheduled, otherwise matmul_0_M and so on."""
        alone = len(self.operations) == 1
        return {
            loop if alone else f"{operation.name}_{loop}": size
            for operation in self.operations
            for loop, size in operation.sizes.items()
        }

    def resized(self, workload: str, sizes: Mapping[str, Any]) -> Self:
        """Return the problem unchanged. Raises `ProblemError` if sizes are given."""
        if sizes:
            raise ProblemError(f"the shapes of {self.name} stand in the module and cannot be set; edit the module")
        return replace(self, workload=workload, sizes=sizes)

    @property
    def flops(self) -> int:
        """Number of multiplications and additions in all operations that can be scheduled."""
        return sum(operation.flops for operation in self.operations)

    @property
    def traffic(self) -> int:
        """Minimum number of bytes that a call reads and writes."""
        return sum(type_.bytes for type_ in (*self.inputs, *self.results))

    def draw(self, seed: int) -> list[Array]:
        """Return random inputs, determined by the seed.

        Floats are uniform in [-1, 1), 16-bit floats are multiples of a half, and integers are from -4 to 4. So sums of
        many products are exact in any order and in any parts: IREE keeps the sum of a tile of K in the result's type,
        which would make the default module's own error 1 % in bf16 if K is 1024.
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
        """Return NumPy's results, in double precision, rounded once per operation; None if a step is unsupported."""
        return None if self.steps is None else run(self.steps, self.returns, inputs)
