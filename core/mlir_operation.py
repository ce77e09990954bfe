"""An operation of an MLIR module that can be scheduled: its loops, its operands, and its evaluation with NumPy."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .errors import ProblemError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]

_DTYPES: Mapping[str, str] = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8",
}  # fmt: skip

Index = tuple[tuple[str, int], ...]
"""An index of a tensor as a sum of loops with factors: `(("OH", 2), ("KH", 1))` is 2 OH + KH."""


@dataclass(frozen=True)
class TensorType:
    """Static shape and element type of a tensor, by MLIR's name: `f32`."""

    shape: tuple[int, ...]
    element: str

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type in NumPy. Raises `ProblemError` if there is none."""
        import numpy as np

        if self.element not in _DTYPES:
            raise ProblemError(f"no random inputs of {self.element} can be made; use one of {', '.join(_DTYPES)}")
        if self.element == "bf16":
            import ml_dtypes  # installed with IREE's runtime, whose arrays have this type

            bf16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
            return bf16
        return np.dtype(_DTYPES[self.element])

    @property
    def element_bytes(self) -> int:
        """Size of an element in bytes: 2 for bf16, 1 for i1 and f8E4M3FN."""
        bits = re.search(r"\d+", self.element)
        return max(1, int(bits[0]) // 8) if bits else 8

    @property
    def bytes(self) -> int:
        """Size of the tensor in bytes."""
        return math.prod(self.shape) * self.element_bytes

    def __str__(self) -> str:
        """Return the type in the syntax of IREE's tools: `1024x256xf32`."""
        return "x".join(map(str, (*self.shape, self.element)))


@dataclass(frozen=True)
class Loop:
    """A loop of an operation: B (batch), M, N, K of a product; B, OH, OW, OC, KH, KW, IC of a convolution."""

    name: str
    size: int
    reduction: bool = False


@dataclass(frozen=True)
class Operation:
    """A sum of products over loops, result[...] += lhs[...] * rhs[...]: a matrix product or a convolution."""

    kind: str
    """`matmul`, `batch_matmul`, `contraction` or `conv_2d`, with `_transpose_a` or `_transpose_b` if transposed."""
    name: str
    """The kind and the operation's number in the function: `matmul_0`."""
    position: int
    """Position in a walk over all operations of the function, which identifies it."""
    loops: tuple[Loop, ...]
    """Loops in the order of the iteration space, which is also the order of tile sizes."""
    operands: tuple[TensorType, TensorType]
    result: TensorType
    accesses: tuple[tuple[Index, ...], tuple[Index, ...], tuple[Index, ...]]
    """Indices of lhs, rhs and result."""

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The loops' sizes by name."""
        return {loop.name: loop.size for loop in self.loops}

    @property
    def flops(self) -> int:
        """Number of multiplications and additions."""
        return 2 * math.prod(loop.size for loop in self.loops)

    @property
    def shape(self) -> str:
        """The sizes in the order of the loops: `1024x512x256`."""
        return "x".join(str(loop.size) for loop in self.loops)

    def apply(self, lhs: Array, rhs: Array, start: Array) -> Array:
        """Return start plus the sum of products, with NumPy in double precision. Integers are exact up to 2**53."""
        import numpy as np

        letters = {loop.name: chr(ord("a") + i) for i, loop in enumerate(self.loops)}
        views, terms = [], []
        for array, access in zip((lhs, rhs), self.accesses, strict=False):
            view, loops = self._over_loops(array.astype(np.float64), access)
            views.append(view)
            terms.append("".join(letters[loop] for loop in loops))
        out = "".join(letters[index[0][0]] for index in self.accesses[2])
        products: Array = np.einsum(f"{','.join(terms)}->{out}", *views, optimize=True)
        return np.asarray((start + products).astype(self.result.dtype))

    def _over_loops(self, array: Array, access: Sequence[Index]) -> tuple[Array, list[str]]:
        """Return a view of an operand with one dimension per loop that indexes it, and these loops."""
        from numpy.lib.stride_tricks import as_strided

        strides: dict[str, int] = {}
        for index, stride in zip(access, array.strides, strict=True):
            for loop, factor in index:
                strides[loop] = strides.get(loop, 0) + factor * stride
        shape = [self.sizes[loop] for loop in strides]
        return as_strided(array, shape, list(strides.values()), writeable=False), list(strides)


@dataclass(frozen=True)
class Filled:
    """A step of a function: a tensor filled with one value, 0 if nothing is written to it."""

    type: TensorType
    value: float


@dataclass(frozen=True)
class Applied:
    """A step of a function: an operation on lhs, rhs and an accumulator, by their numbers."""

    operation: Operation
    inputs: tuple[int, int, int]


Step = Filled | Applied


def run(steps: Sequence[Step], returns: Sequence[int], inputs: Sequence[Array]) -> list[Array]:
    """Evaluate a function with NumPy. Values are numbered: first the inputs, then the steps."""
    import numpy as np

    values: list[np.ndarray[Any, Any]] = list(inputs)
    for step in steps:
        if isinstance(step, Filled):
            values.append(np.full(step.type.shape, step.value, step.type.dtype))
        else:
            lhs, rhs, start = (values[number] for number in step.inputs)
            values.append(step.operation.apply(lhs, rhs, start))
    return [values[number] for number in returns]
