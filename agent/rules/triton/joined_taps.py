"""Sum over a convolution's filter taps and channels in one index, so that no step is mostly empty."""

from __future__ import annotations

import math
from collections.abc import Sequence

import libcst as cst

from ...analysis.source import statements
from ...analysis.tree import block_of, with_block
from ...analysis.triton import ConvolutionTemplate, Launch, TritonKernel, convolution_of
from ..rule import Change, Rewritten, require, rule

WIDTH = 4
"""Elements of a load of 16 bytes."""
_MOST = 2**31
"""Elements that indices of 32 bits tell apart."""
_PACK = """
@triton.jit
def pack_pixels(
    x_ptr, packed_ptr, n_pixels, stride_n, stride_c, stride_d, stride_h, stride_w,
    IN_C: tl.constexpr, IN_D: tl.constexpr, IN_H: tl.constexpr, IN_W: tl.constexpr,
    PADDING_D: tl.constexpr, PADDING_H: tl.constexpr, PADDING_W: tl.constexpr,
    CHANNELS: tl.constexpr, BLOCK_PIXELS: tl.constexpr, BLOCK_CHANNELS: tl.constexpr,
):
    # To (samples, depth, height, width, channels), with zeros for the border and for further channels.
    size_d: tl.constexpr = IN_D + 2 * PADDING_D
    size_h: tl.constexpr = IN_H + 2 * PADDING_H
    size_w: tl.constexpr = IN_W + 2 * PADDING_W
    pixels = tl.program_id(0) * BLOCK_PIXELS + tl.arange(0, BLOCK_PIXELS)
    channels = tl.program_id(1) * BLOCK_CHANNELS + tl.arange(0, BLOCK_CHANNELS)
    w = pixels % size_w - PADDING_W
    h = pixels // size_w % size_h - PADDING_H
    d = pixels // (size_w * size_h) % size_d - PADDING_D
    n = (pixels // (size_w * size_h * size_d)).to(tl.int64)
    inside = (pixels < n_pixels) & (d >= 0) & (d < IN_D) & (h >= 0) & (h < IN_H) & (w >= 0) & (w < IN_W)
    offs = n * stride_n + d * stride_d + h * stride_h + w * stride_w
    tile = tl.load(
        x_ptr + channels[:, None] * stride_c + offs[None, :],
        mask=(channels[:, None] < IN_C) & inside[None, :],
        other=0.0,
    )
    to = packed_ptr + pixels[:, None].to(tl.int64) * CHANNELS + channels[None, :]
    tl.store(to, tl.trans(tile), mask=(pixels[:, None] < n_pixels) & (channels[None, :] < CHANNELS))


@triton.jit
def pack_taps(
    w_ptr, packed_ptr, numel, stride_out, stride_c, stride_d, stride_h, stride_w,
    IN_C: tl.constexpr, KERNEL_D: tl.constexpr, KERNEL_H: tl.constexpr, KERNEL_W: tl.constexpr,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr,
):
    # To (output channels, taps, channels), with zeros for further channels.
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channels, tap = offs % CHANNELS, offs // CHANNELS
    w, h, d = tap % KERNEL_W, tap // KERNEL_W % KERNEL_H, tap // (KERNEL_W * KERNEL_H) % KERNEL_D
    out = tap // (KERNEL_W * KERNEL_H * KERNEL_D)
    source = out * stride_out + channels * stride_c + d * stride_d + h * stride_h + w * stride_w
    tile = tl.load(w_ptr + source, mask=(offs < numel) & (channels < IN_C), other=0.0)
    tl.store(packed_ptr + offs, tile, mask=offs < numel)
"""
_LOOP = """
# A pixel's channels lie side by side, one tap's after the other's; the border is in memory.
x_rows = X + ({rows}) * {channels}
w_columns = W + idx_y_c * {length}
N_SUM = {length}
for k in range(0, N_SUM, BLOCK_K):
    summed = k + tl.arange(0, BLOCK_K)
    idx_x_c = summed % {channels}
    tap = summed // {channels}
    x_taps = ({taps}) * {channels} + idx_x_c
    mask_x = (idx_n < BATCH)[:, None] & (summed < N_SUM)[None, :]
    matrix_x = tl.load(x_rows[:, None] + x_taps[None, :], mask=mask_x, other=0.0)
    mask_w = (summed[:, None] < N_SUM) & (idx_y_c[None, :] < GROUP_OUT_C)
    matrix_w = tl.load(w_columns[None, :] + summed[:, None], mask=mask_w, other=0.0)
"""


@rule("compute", "products", TritonKernel.read).because(
    "steps of the sum are full however few the channels are, and loads are 16 bytes wide without masks of pixels"
)
def joined_taps(kernel: TritonKernel, change: Change) -> Rewritten:
    """A convolution's sum over its taps, and for each over some channels, becomes one sum over both.

    With three channels a step of 16 is mostly masked; joined, only the last step of the sum is. The input is copied
    with its channels side by side, their number rounded up to four, and with its border of zeros, so that a load is
    16 bytes wide and no mask is left but those of the ends; the weight likewise. Tensors that lie like that already
    are read in place.

    Needs the convolution of torch's compiler as its template has it, in two or three dimensions, of one group, with any
    strides and padding, whose packed input has fewer than 2^31 elements.
    """
    pixels, taps = change.fresh("pack_pixels"), change.fresh("pack_taps")
    if any(change.each(kernel.launched_once(), lambda launch, change: _join(launch, change, pixels, taps))):
        change.helper(_PACK.replace("pack_pixels", pixels).replace("pack_taps", taps))
    return change.rewritten("summed over taps and channels in one index")


def _join(launch: Launch, change: Change, pixels: str, taps: str) -> bool:
    """Change one convolution; return whether it copies anything."""
    launch.require_alone()
    found = convolution_of(launch)
    packed_size = found.sizes["BATCH"] * math.prod(_padded(found)) * _channels(found)
    require(packed_size < _MOST, "the packed input has 2^31 elements or more")
    host, given, arguments = "", {}, launch.texts
    if any(found.of_axes("PADDING_", 0)) or not _is_packed(found, "x", "IN_", "stride_xn", "stride_xc"):
        given[found.x] = change.fresh("pixels")
        host += _packed_pixels(found, arguments[found.x], given[found.x], pixels)
    if not _is_packed(found, "w", "KERNEL_", "stride_wc_out", "stride_wc_in"):
        given[found.weight] = change.fresh("taps")
        host += _packed_taps(found, arguments[found.weight], given[found.weight], taps)
    if host:
        change.put(launch.node, launch.relaunched(launch.function.name, given))
        change.before(launch.statement, host)
    change.remove(*found.replaced)
    change.put_statements(found.loop, _loop(found))
    return bool(host)


def _loop(found: ConvolutionTemplate) -> list[cst.BaseStatement]:
    depth, height, width = _padded(found)
    rows, taps = "idx_n", f"tap // KERNEL_W * {width} + tap % KERNEL_W"
    if found.rank == 3:
        rows = f"idx_n * {depth} + idx_y_d * STRIDE_D"
        taps = f"(tap // (KERNEL_H * KERNEL_W) * {height} + tap // KERNEL_W % KERNEL_H) * {width} + tap % KERNEL_W"
    rows = f"(({rows}) * {height} + idx_y_h * STRIDE_H) * {width} + idx_y_w * STRIDE_W"
    channels = _channels(found)
    *lines, loop = statements(_LOOP.format(rows=rows, taps=taps, channels=channels, length=channels * found.taps))
    product = block_of(found.loop)[-1].with_changes(leading_lines=())
    return [*lines, with_block(loop, [*block_of(loop), product])]


def _packed_pixels(found: ConvolutionTemplate, x: str, packed: str, pack: str) -> str:
    channels, block = _channels(found), min(32, 1 << (_channels(found) - 1).bit_length())
    pixels = found.sizes["BATCH"] * math.prod(_padded(found))
    names = [f"{kind}{axis}" for kind in ("IN_", "PADDING_") for axis in "DHW"]
    sizes = (found.sizes["IN_C"], *found.of_axes("IN_", 1), *found.of_axes("PADDING_", 0))
    strides = (found.sizes["stride_xn"], found.sizes["stride_xc"], *found.of_axes("stride_x", 0))
    tile = 1024 // block if block < 32 else 32
    return (
        f"{packed} = torch.empty({pixels * channels}, dtype={x}.dtype, device={x}.device)\n"
        f"{pack}[(triton.cdiv({pixels}, {tile}), triton.cdiv({channels}, {block}))](\n"
        f"    {x}, {packed}, {pixels}, {_listed(strides)}, {_keywords(['IN_C', *names], sizes)},\n"
        f"    CHANNELS={channels}, BLOCK_PIXELS={tile}, BLOCK_CHANNELS={block}, num_warps=4,\n)\n"
    )


def _packed_taps(found: ConvolutionTemplate, weight: str, packed: str, pack: str) -> str:
    numel = found.sizes["OUT_C"] * found.taps * _channels(found)
    sizes = (found.sizes["IN_C"], *found.of_axes("KERNEL_", 1))
    strides = (found.sizes["stride_wc_out"], found.sizes["stride_wc_in"], *found.of_axes("stride_w", 0))
    return (
        f"{packed} = torch.empty({numel}, dtype={weight}.dtype, device={weight}.device)\n"
        f"{pack}[(triton.cdiv({numel}, 256),)](\n"
        f"    {weight}, {packed}, {numel}, {_listed(strides)}, "
        f"{_keywords(['IN_C', 'KERNEL_D', 'KERNEL_H', 'KERNEL_W'], sizes)},\n"
        f"    CHANNELS={_channels(found)}, BLOCK=256, num_warps=4,\n)\n"
    )


def _listed(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


def _keywords(names: Sequence[str], values: Sequence[int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))


def _channels(found: ConvolutionTemplate) -> int:
    return -(-found.sizes["IN_C"] // WIDTH) * WIDTH


def _padded(found: ConvolutionTemplate) -> tuple[int, ...]:
    sides = zip(found.of_axes("IN_", 1), found.of_axes("PADDING_", 0), strict=True)
    return tuple(size + 2 * padding for size, padding in sides)


def _is_packed(found: ConvolutionTemplate, tensor: str, kind: str, outer: str, channel: str) -> bool:
    """Return whether a tensor lies in memory as its copy would, but for a border."""
    depth, height, width = found.of_axes(kind, 1)
    sizes, channels = found.sizes, found.sizes["IN_C"]
    steps = (height * width * channels, width * channels, channels)[-found.rank :]
    strides = found.of_axes(f"stride_{tensor}", 0)[-found.rank :]
    side_by_side = (sizes[channel], sizes[outer]) == (1, depth * height * width * channels)
    return _channels(found) == channels and strides == steps and side_by_side
