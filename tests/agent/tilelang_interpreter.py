"""Runs a TileLang kernel file for CUDA on the CPU, statement by statement, for small sizes.

It shows whether a rewritten file still says the same: values, indices, ragged edges, and the rounding to bf16 and TF32.
It knows one thread, so it says nothing about layouts, barriers or speed. Reading or writing outside of a buffer of the
block is an error; outside of a tensor it reads 0 and writes nothing, as TileLang does.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
import torch

CUT_BITS = {"bfloat16": 16, "tfloat32": 13}
"""Of the mantissa of fp32."""


def rounded(values: Any, dtype: str) -> Any:
    """fp32 values as the dtype keeps them, to the nearest, ties to even."""
    cut = CUT_BITS.get(dtype, 0)
    if not cut:
        return values
    if isinstance(values, np.ndarray):
        bits = values.view(np.uint32).astype(np.uint64)
        bits = (bits + (1 << (cut - 1)) - 1 + ((bits >> cut) & 1)) >> cut << cut
        return bits.astype(np.uint32).view(np.float32)
    (word,) = struct.unpack("I", struct.pack("f", values))
    word = (word + (1 << (cut - 1)) - 1 + ((word >> cut) & 1)) >> cut << cut
    return np.float32(struct.unpack("f", struct.pack("I", word))[0])


class Element(np.float32):
    """A value that knows where it stands, as T.copy needs."""

    buffer: Buffer
    index: tuple[int, ...]


class Buffer:
    def __init__(self, data: np.ndarray, dtype: str, is_tensor: bool) -> None:
        self.data, self.dtype, self.is_tensor = data, dtype, is_tensor

    def inside(self, index: Sequence[int]) -> bool:
        # A loop, since a generator for each element took a fifth of the time of a run.
        for number, size in zip(index, self.data.shape, strict=True):
            if not 0 <= number < size:
                assert self.is_tensor, (index, self.data.shape)
                return False
        return True

    def __getitem__(self, index: Any) -> Element:
        index = index if isinstance(index, tuple) else (index,)
        element = Element(self.data[index] if self.inside(index) else 0.0)
        element.buffer, element.index = self, index
        return element

    def __setitem__(self, index: Any, value: Any) -> None:
        index = index if isinstance(index, tuple) else (index,)
        if self.inside(index):
            self.data[index] = rounded(value, self.dtype)


class Frame:
    """`with T.Kernel(...)`: the body is run once for each block."""

    def __init__(self) -> None:
        self.block, self.grid = 0, (1,)

    def __call__(self, *grid: int, threads: int) -> Frame:
        assert threads <= 1024
        self.grid = grid
        return self

    def __enter__(self) -> Any:
        index = tuple(int(index_) for index_ in np.unravel_index(self.block, self.grid))
        return index if len(index) > 1 else index[0]

    def __exit__(self, *_: object) -> None: ...


class Policies(StrEnum):
    Square, FullRow, FullCol = "Square", "FullRow", "FullCol"


class Language:
    """What `T` stands for."""

    bfloat16, tfloat32 = "bfloat16", "tfloat32"
    exp, tanh, sqrt, abs, max, min = np.exp, np.tanh, np.sqrt, np.abs, np.maximum, np.minimum

    def __init__(self) -> None:
        self.Kernel = Frame()
        self.GemmWarpPolicy = Policies
        self.unroll = self.serial = self.Pipelined = lambda count, **_: range(count)
        self.annotate_layout = self.use_swizzle = self.annotate_min_blocks_per_sm = self.Fragment = lambda *_, **__: (
            None
        )
        self.erf = lambda value: np.float32(math.erf(value))
        self.rsqrt = lambda value: np.float32(1) / np.sqrt(value)
        self.alloc_shared = self.alloc_fragment = self._alloc

    def prim_func(self, function: Callable[..., None]) -> Callable[..., None]:
        return function

    def Tensor(self, shape: tuple[int, ...], dtype: str) -> tuple[tuple[int, ...], str]:  # noqa: N802
        return shape, dtype

    def Parallel(self, *extents: int) -> Iterator[Any]:  # noqa: N802
        return iter(range(extents[0])) if len(extents) == 1 else itertools.product(*map(range, extents))

    def _alloc(self, shape: tuple[int, ...], dtype: str) -> Buffer:
        return Buffer(np.full(shape, np.nan, dtype=np.float32), dtype, is_tensor=False)

    def ceildiv(self, a: int, b: int) -> int:
        return -(-a // b)

    def infinity(self, _: str) -> float:
        return math.inf

    def cast(self, value: Any, dtype: str) -> Any:
        return rounded(np.float32(value), dtype)

    def if_then_else(self, condition: Any, positive: Any, other: Any) -> Any:
        return np.float32(positive if condition else other)

    def clear(self, buffer: Buffer) -> None:
        buffer.data[...] = 0

    def fill(self, buffer: Buffer, value: float) -> None:
        buffer.data[...] = value

    def copy(self, source: Any, target: Any, disable_tma: bool = False) -> None:
        tile = source if isinstance(source, Buffer) else target
        other = target if tile is source else source
        if isinstance(other, Buffer):
            target.data[...] = rounded(source.data, target.dtype)
            return
        # What of the tile lies inside of the other buffer, on both sides.
        lead, start = other.index[: -tile.data.ndim], other.index[-tile.data.ndim :]
        sizes = other.buffer.data.shape[len(lead) :]
        here, there = [], []
        for first, count, size in zip(start, tile.data.shape, sizes, strict=True):
            low, high = min(max(0, -first), count), max(0, min(count, size - first))
            assert other.buffer.is_tensor or (low, high) == (0, count), (other.index, other.buffer.data.shape)
            here.append(slice(low, max(low, high)))
            there.append(slice(first + low, first + max(low, high)))
        if other is source:
            tile.data[...] = 0
            tile.data[tuple(here)] = rounded(other.buffer.data[(*lead, *there)], tile.dtype)
        else:
            other.buffer.data[(*lead, *there)] = rounded(tile.data[tuple(here)], other.buffer.dtype)

    def gemm(
        self, a: Buffer, b: Buffer, acc: Buffer, *, policy: str, transpose_A=False, transpose_B=False, clear_accum=False
    ) -> None:
        left, right = (rounded(buffer.data, "tfloat32") for buffer in (a, b))
        product = (left.T if transpose_A else left) @ (right.T if transpose_B else right)
        acc.data[...] = product if clear_accum else acc.data + product

    def reduce_sum(self, source: Buffer, target: Buffer, dim: int, clear: bool = True) -> None:
        target.data[...] = source.data.sum(axis=dim).reshape(target.data.shape) + (0 if clear else target.data)

    def reduce_max(self, source: Buffer, target: Buffer, dim: int, clear: bool = True) -> None:
        found = source.data.max(axis=dim).reshape(target.data.shape)
        target.data[...] = found if clear else np.maximum(found, target.data)


class TileLang:
    """What `tilelang` stands for."""

    def __init__(self, language: Language) -> None:
        self.language = language

    def compile(self, function: Callable[..., None], out_idx: list[int], target: str, **_: Any) -> Callable[..., Any]:
        specs = list(function.__annotations__.values())
        outputs = [number % len(specs) for number in out_idx]

        def run(*inputs: torch.Tensor) -> Any:
            given = iter(inputs)
            buffers = []
            for position, (shape, dtype) in enumerate(specs):
                tensor = torch.full(shape, math.nan) if position in outputs else next(given)
                assert tuple(tensor.shape) == tuple(shape) and tensor.is_contiguous()
                buffers.append(Buffer(tensor.detach().float().numpy(), dtype, is_tensor=True))
            frame = self.language.Kernel
            for block in itertools.count():
                frame.block = block
                function(*buffers)
                if block + 1 == math.prod(frame.grid):
                    break
            results = [torch.from_numpy(buffers[output].data) for output in outputs]
            return results[0] if len(results) == 1 else results

        return run


def load(source: str) -> dict[str, Any]:
    """Return the names of a kernel file, whose kernels run here."""
    language = Language()
    imports = "import tilelang\nimport tilelang.language as T\n"
    assert imports in source
    names: dict[str, Any] = {"T": language, "tilelang": TileLang(language), "__name__": "kernel"}
    exec(compile(source.replace(imports, ""), "kernel", "exec", dont_inherit=True), names)
    return names
