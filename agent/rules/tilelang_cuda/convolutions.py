"""Finds transposed convolutions of stride 1 on the CUDA cores, and what stands in the place of their sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from ..source import Statement
from .file import Builder
from .template import canonical, match

_POSITIONS = """
for q_tap in T.serial(q_kernel**3):
    for q_chunk in T.serial(q_chunks):
        for q_k, q_p in T.Parallel(q_step, q_columns):
            q_position = q_bp * q_columns + q_p
            q_ic = q_chunk * q_step + q_k
            q_d = q_position // (q_OH * q_OW) - q_tap // (q_kernel * q_kernel)
            q_h = q_position // q_OW % q_OH - q_tap // q_kernel % q_kernel
            q_w = q_position % q_OW - q_tap % q_kernel
            q_tile[q_k, q_p] = T.if_then_else(
                (q_ic < q_IC) & (q_d >= 0) & (q_d < q_D) & (q_h >= 0) & (q_h < q_H) & (q_w >= 0) & (q_w < q_W),
                q_x[q_b, q_ic, q_d, q_h, q_w],
                0.0,
            )
        T.copy(q_weight[q_tap, q_bc * q_rows, q_chunk * q_step], q_wtile, disable_tma=True)
        for q_kk in T.unroll(q_step, unroll_factor=q_unroll):
            for q_i, q_j in T.Parallel(q_rows, q_columns):
                q_acc[q_i, q_j] += q_wtile[q_i, q_kk] * q_tile[q_kk, q_j]
"""
"""A tile of the result's channels and positions, weights (taps, result channels, channels)."""
_POSITIONS_BEFORE = (
    "q_OD, q_OH, q_OW = q_D + q_kernel - 1, q_H + q_kernel - 1, q_W + q_kernel - 1",
    "q_size = q_OD * q_OH * q_OW",
    "q_chunks = (q_IC + q_step - 1) // q_step",
)
_WINDOWS = """
for q_ko in T.serial(T.ceildiv(q_IC, q_step)):
    for q_k in T.serial(q_step):
        for q_i, q_j in T.Parallel(q_patch_h, q_patch_w):
            q_ic = q_ko * q_step + q_k
            q_h = q_first_h * q_pool + q_i - q_pad
            q_w = q_first_w * q_pool + q_j - q_pad
            q_tile[q_k, q_i, q_j] = T.if_then_else(
                (q_ic < q_IC) & (q_h >= 0) & (q_h < q_H) & (q_w >= 0) & (q_w < q_W), q_x[q_b, q_ic, q_h, q_w], 0.0
            )
    for q_k, q_c, q_tap in T.Parallel(q_step, q_channels, q_kernel * q_kernel):
        q_ic = q_ko * q_step + q_k
        q_oc = q_bc * q_channels + q_c
        q_wtile[q_k, q_tap, q_c] = T.if_then_else(
            (q_ic < q_IC) & (q_oc < q_OC), q_weight[q_ic, q_oc, q_tap], 0.0
        )
    for q_k in T.serial(q_step):
        for q_tap in T.unroll(q_kernel * q_kernel):
            for q_thread, q_q, q_c in T.Parallel(q_threads, q_pool * q_pool, q_channels):
                q_h = q_thread // q_tile_w * q_pool + q_q // q_pool + q_kernel - 1 - q_tap // q_kernel
                q_w = q_thread % q_tile_w * q_pool + q_q % q_pool + q_kernel - 1 - q_tap % q_kernel
                q_acc[q_thread, q_q, q_c] += q_tile[q_k, q_h, q_w] * q_wtile[q_k, q_tap, q_c]
"""
"""A tile of pooling windows, whose sums each thread holds; weights (channels, result channels, taps)."""
_WINDOWS_BEFORE = ("q_pad = q_kernel - 1 - q_padding",)


@dataclass(frozen=True)
class Convolution:
    """A transposed convolution of stride 1 in a loop of a builder, and what it needs to be a kernel of its own."""

    loop: Statement
    parts: Mapping[str, str]
    """The placeholders of the form's template."""
    planes: bool
    """Whether it has two axes, not three."""
    gone: tuple[str, ...]
    """The shared tiles that only the loop uses."""
    sums: str
    """The statements that read the sums from the tensor `result`, (B, result channels, positions), in its place."""
    weight: str
    """The expression over `weight` that has the shape (taps, result channels, channels)."""


def convolution_of(builder: Builder) -> Convolution | None:
    """Return the only convolution of a builder; None where it has none of a known form."""
    for statement in builder.statements:
        if not isinstance(statement, cst.For):
            continue
        if parts := match(_POSITIONS, statement):
            return _checked(builder, statement, _completed(builder, parts, _POSITIONS_BEFORE), planes=False)
        if parts := match(_WINDOWS, statement):
            return _checked(builder, statement, _completed(builder, parts, _WINDOWS_BEFORE), planes=True)
    return None


def _completed(builder: Builder, parts: dict[str, str], before: Sequence[str]) -> dict[str, str] | None:
    """Return the parts with those that the builder's own assignments add, None where one is missing."""
    for template in before:
        found = next((one for s in builder.before if (one := match(template, s, parts))), None)
        if found is None:
            return None
        parts = found
    return parts


def _checked(builder: Builder, loop: Statement, parts: dict[str, str] | None, planes: bool) -> Convolution | None:
    if parts is None or parts["x"] == parts["weight"] or parts["tile"] == parts["wtile"]:
        return None
    x, weight = builder.tensors.get(parts["x"]), builder.tensors.get(parts["weight"])
    if x is None or weight is None or {x.dtype, weight.dtype} != {"float32"}:
        return None
    # Allocated, filled in the loop, read in the loop.
    tiles = (parts["tile"], parts["wtile"])
    if builder.uses(x.name) != 1 or builder.uses(weight.name) != 1:
        return None
    if any(name not in builder.tiles or builder.uses(name) != 3 for name in tiles):
        return None
    cleared = any(match("T.clear(q_acc)", s, {"acc": parts["acc"]}) for s in builder.statements)
    if parts["acc"] not in builder.tiles or not cleared:
        return None
    if planes:
        return _windows(builder, loop, parts, tiles)
    return _positions(builder, loop, parts, tiles)


def _positions(builder: Builder, loop: Statement, parts: dict[str, str], tiles: tuple[str, str]) -> Convolution | None:
    x, weight = (builder.tensors[parts[name]].shape for name in ("x", "weight"))
    expected = tuple(parts[name] for name in ("IC", "D", "H", "W"))
    grid = (f"T.ceildiv({parts['size']}, {parts['columns']})", f"T.ceildiv({weight[1]}, {parts['rows']})", x[0])
    if x[1:] != expected or builder.grid != grid or builder.axes != (parts["bp"], parts["bc"], parts["b"]):
        return None
    if weight != (canonical(f"{parts['kernel']}**3"), weight[1], parts["IC"]):
        return None
    parts = parts | {"B": x[0], "OC": weight[1]}
    sums = "T.copy(result[{b}, {bc} * {rows}, {bp} * {columns}], {acc})\n".format(**parts)
    return Convolution(loop, parts, False, tiles, sums, "weight")


def _windows(builder: Builder, loop: Statement, parts: dict[str, str], tiles: tuple[str, str]) -> Convolution | None:
    x, weight = (builder.tensors[parts[name]].shape for name in ("x", "weight"))
    if x[1:] != tuple(parts[name] for name in ("IC", "H", "W")):
        return None
    if weight != (parts["IC"], parts["OC"], canonical(f"{parts['kernel']} * {parts['kernel']}")):
        return None
    if builder.axes[1:] != (parts["bc"], parts["b"]) or builder.grid[2] != x[0]:
        return None
    sums = """
for {thread}, {q}, {c} in T.Parallel({threads}, {pool} * {pool}, {channels}):
    {oc} = {bc} * {channels} + {c}
    {h} = ({first_h} + {thread} // {tile_w}) * {pool} + {q} // {pool} + {padding}
    {w} = ({first_w} + {thread} % {tile_w}) * {pool} + {q} % {pool} + {padding}
    {acc}[{thread}, {q}, {c}] = T.if_then_else(
        ({oc} < {OC}) & ({h} < {H} + {kernel} - 1) & ({w} < {W} + {kernel} - 1),
        result[{b}, {oc}, {h} * ({W} + {kernel} - 1) + {w}],
        0.0,
    )
""".format(**parts)
    parts = parts | {"B": x[0], "D": "1"}
    return Convolution(loop, parts, True, tiles, sums, "weight.permute(2, 1, 0).contiguous()")
