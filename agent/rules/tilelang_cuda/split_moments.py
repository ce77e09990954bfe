"""Mean and variance of a few long rows: parts of a row in blocks of their own, combined by a second kernel."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from ....core import Parameter, PythonKernel
from ..rule import Machine, Rewritten, tree_and_names, with_source
from ..source import statements
from ..triton.edit import edited
from .file import builders_of
from .space import redeclared
from .template import match

_MOMENTS = """
with T.Kernel(q_rows, threads=q_threads) as q_row:
    q_partial = T.alloc_fragment((q_block,), "float32")
    q_mean = T.alloc_fragment((1,), "float32")
    q_variance = T.alloc_fragment((1,), "float32")
    T.clear(q_partial)
    for q_step in T.serial(T.ceildiv(q_size, q_block)):
        for q_j in T.Parallel(q_block):
            q_at = q_step * q_block + q_j
            q_partial[q_j] += T.if_then_else(q_at < q_size, q_x[q_row, q_at], 0.0)
    T.reduce_sum(q_partial, q_mean, dim=0)
    for q_one in T.Parallel(1):
        q_mean[q_one] = q_mean[q_one] / q_size
    T.clear(q_partial)
    for q_step in T.serial(T.ceildiv(q_size, q_block)):
        for q_j in T.Parallel(q_block):
            q_at = q_step * q_block + q_j
            q_deviation = T.if_then_else(q_at < q_size, q_x[q_row, q_at] - q_mean[0], 0.0)
            q_partial[q_j] += q_deviation * q_deviation
    T.reduce_sum(q_partial, q_variance, dim=0)
    for q_one in T.Parallel(1):
        q_moments[0, q_row] = q_mean[q_one]
        q_moments[1, q_row] = T.rsqrt(q_variance[q_one] / q_size + q_eps)
"""
_TEXT = """
@functools.lru_cache
def {builder}({arguments}):
    # A multiple of four, for loads of 16 bytes; the last parts may be shorter, or empty.
    length = ({size} + 4 * MOMENT_PARTS - 1) // (4 * MOMENT_PARTS) * 4

    @T.prim_func
    def {kernel}_of_parts(
        {x}: T.Tensor(({rows}, {size}), "float32"), parts: T.Tensor((2, {rows}, MOMENT_PARTS), "float32")
    ):
        with T.Kernel(MOMENT_PARTS, {rows}, threads={threads}) as (part, row):
            partial = T.alloc_fragment(({block},), "float32")
            mean = T.alloc_fragment((1,), "float32")
            squares = T.alloc_fragment((1,), "float32")
            end = T.min((part + 1) * length, {size})
            T.clear(partial)
            for step in T.serial(T.ceildiv(length, {block})):
                for j in T.Parallel({block}):
                    i = part * length + step * {block} + j
                    partial[j] += T.if_then_else(i < end, {x}[row, i], 0.0)
            T.reduce_sum(partial, mean, dim=0)
            for one in T.Parallel(1):
                mean[one] = mean[one] / T.max(end - part * length, 1)
            T.clear(partial)
            for step in T.serial(T.ceildiv(length, {block})):
                for j in T.Parallel({block}):
                    i = part * length + step * {block} + j
                    deviation = T.if_then_else(i < end, {x}[row, i] - mean[0], 0.0)
                    partial[j] += deviation * deviation
            T.reduce_sum(partial, squares, dim=0)
            for one in T.Parallel(1):
                parts[0, row, part] = mean[one]
                parts[1, row, part] = squares[one]

    @T.prim_func
    def {kernel}(parts: T.Tensor((2, {rows}, MOMENT_PARTS), "float32"), moments: T.Tensor((2, {rows}), "float32")):
        with T.Kernel({rows}, threads=128) as row:
            weighted = T.alloc_fragment((MOMENT_PARTS,), "float32")
            squares = T.alloc_fragment((MOMENT_PARTS,), "float32")
            mean = T.alloc_fragment((1,), "float32")
            variance = T.alloc_fragment((1,), "float32")
            for part in T.Parallel(MOMENT_PARTS):
                weighted[part] = parts[0, row, part] * T.max(T.min(length, {size} - part * length), 0)
            T.reduce_sum(weighted, mean, dim=0)
            for one in T.Parallel(1):
                mean[one] = mean[one] / {size}
            # Squared deviations from a part's own mean, and what its mean deviates by.
            for part in T.Parallel(MOMENT_PARTS):
                away = parts[0, row, part] - mean[0]
                count = T.max(T.min(length, {size} - part * length), 0)
                squares[part] = parts[1, row, part] + away * away * count
            T.reduce_sum(squares, variance, dim=0)
            for one in T.Parallel(1):
                moments[0, row] = mean[one]
                moments[1, row] = T.rsqrt(variance[one] / {size} + {eps})

    of_parts = tilelang.compile({kernel}_of_parts, out_idx=[-1], target={target})
    combined = tilelang.compile({kernel}, out_idx=[-1], target={target})

    def run({x}):
        return combined(of_parts({x}))

    return run
"""
_PARTS = (4, 8, 16, 32, 64)


@dataclass(frozen=True)
class SplitMoments:
    """Compute mean and variance of each row in parts, and combine them by their squared deviations.

    Needs a kernel that does nothing but write mean and reciprocal deviation of rows, in two passes of one block each.
    (Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances, 1979.)
    """

    name = "split-moments"
    category = "parallelism"
    work = "both"
    why = "a block per row leaves most of the device idle when there are few rows"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with its moments in two steps, or None where it has no such kernel."""
        found = [(one, parts) for one in builders_of(kernel) if (parts := match(_MOMENTS, one.block))]
        module, taken = tree_and_names(kernel)
        if len(found) != 1 or "MOMENT_PARTS" in taken:
            return None
        builder, parts = found[0]
        shapes = [(tensor.name, tensor.shape, tensor.dtype) for tensor in builder.tensors.values()]
        rows, size, arguments = parts["rows"], parts["size"], builder.function.params
        expected = [(parts["x"], (rows, size), "float32"), (parts["moments"], ("2", rows), "float32")]
        plain = {one.name.value for one in arguments.params}
        if shapes != expected or builder.before or not {rows, size, parts["eps"]} <= plain:
            return None
        text = _TEXT.format(
            **{one: parts[one] for one in ("x", "rows", "size", "eps", "threads", "block")},
            builder=builder.function.name.value,
            kernel=builder.prim.name.value,
            arguments=", ".join(one.name.value for one in arguments.params),
            target=builder.target,
        )
        new = cst.ensure_type(statements(text.lstrip())[0], cst.FunctionDef)
        new = new.with_changes(leading_lines=builder.function.leading_lines)
        parameter = Parameter("MOMENT_PARTS", _PARTS, 16)
        module = redeclared(kernel, edited(module, {builder.function: lambda _: new}), [parameter], ())
        return Rewritten(with_source(kernel, module), "computed mean and variance of each row in parts", (parameter,))
