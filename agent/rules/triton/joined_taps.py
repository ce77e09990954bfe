"""Sum over a convolution's filter taps and channels in one index, so that no step is mostly empty."""

from __future__ import annotations

import math
from collections.abc import Sequence

import libcst as cst

from ...analysis.applicability import need, require
from ...analysis.change import Change, Rewritten
from ...analysis.edit import parsed
from ...analysis.triton import Convolution, Launch, TritonKernel, convolution_of, relaunched, texts
from ..rule import rule

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


@rule(
    "joined-taps",
    category="compute",
    work="products",
    why="steps of the sum are full however few the channels are, and loads are 16 bytes wide without masks of pixels",
    reads=TritonKernel.read,
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
    copies: list[bool] = []
    change.each(kernel.launched_once(), lambda one, change: copies.append(_join(one, change, pixels, taps)))
    if any(copies):
        change.helper(_PACK.replace("pack_pixels", pixels).replace("pack_taps", taps))
    return change.rewritten("summed over taps and channels in one index")


def _join(launch: Launch, change: Change, pixels: str, taps: str) -> bool:
    """Change one convolution; return whether it copies anything."""
    require(launch.stands_alone, "the launch is no statement of its own")
    found = need(convolution_of(launch), "the function is no convolution of the template of torch's compiler")
    require(_packed_size(found) < _MOST, "the packed input has 2^31 elements or more")
    host, given = "", {}
    arguments = texts(launch)
    if not _is_packed_input(found):
        given[found.x] = change.fresh("pixels")
        host += _packed_pixels(found, arguments[found.x], given[found.x], pixels)
    if not _is_packed_weight(found):
        given[found.weight] = change.fresh("taps")
        host += _packed_taps(found, arguments[found.weight], given[found.weight], taps)
    if host:
        change.put(launch.node, relaunched(launch, launch.function.name, given))
        change.before(launch.statement, host)
    for statement in (*found.bases, found.count):
        change.remove(statement)
    new = _loop(found)
    change.edit(found.loop, lambda _: cst.FlattenSentinel(new))
    return bool(host)


def _loop(found: Convolution) -> list[cst.BaseStatement]:
    """Write the loop over both, with the product as it was."""
    _, height, width = _padded(found)
    rows, taps = "idx_n", "tap // (KERNEL_H * KERNEL_W)"
    if found.rank == 3:
        rows = f"idx_n * {_padded(found)[0]} + idx_y_d * STRIDE_D"
        taps = f"({taps} * {height} + tap // KERNEL_W % KERNEL_H) * {width} + tap % KERNEL_W"
    else:
        taps = f"tap // KERNEL_W * {width} + tap % KERNEL_W"
    rows = f"(({rows}) * {height} + idx_y_h * STRIDE_H) * {width} + idx_y_w * STRIDE_W"
    channels = _channels(found)
    text = _LOOP.format(rows=rows, taps=taps, channels=channels, length=channels * found.taps)
    *lines, loop = parsed(text)
    loop = cst.ensure_type(loop, cst.For)
    product = found.loop.body.body[-1].with_changes(leading_lines=())
    body = loop.body.with_changes(body=[*loop.body.body, product])
    return [*lines, loop.with_changes(body=body)]


def _packed_pixels(found: Convolution, x: str, packed: str, pack: str) -> str:
    channels, block = _channels(found), _power(_channels(found))
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


def _packed_taps(found: Convolution, weight: str, packed: str, pack: str) -> str:
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


def _power(channels: int) -> int:
    """Return the channels of the packing kernel's tile."""
    return min(32, 1 << (channels - 1).bit_length())


def _channels(found: Convolution) -> int:
    return -(-found.sizes["IN_C"] // WIDTH) * WIDTH


def _padded(found: Convolution) -> tuple[int, ...]:
    sides = zip(found.of_axes("IN_", 1), found.of_axes("PADDING_", 0), strict=True)
    return tuple(size + 2 * padding for size, padding in sides)


def _packed_size(found: Convolution) -> int:
    return found.sizes["BATCH"] * math.prod(_padded(found)) * _channels(found)


def _is_packed_input(found: Convolution) -> bool:
    """Return whether the input lies in memory as its copy would."""
    depth, height, width = found.of_axes("IN_", 1)
    channels = found.sizes["IN_C"]
    steps = (height * width * channels, width * channels, channels)
    sizes = found.sizes
    return (
        _channels(found) == channels
        and not any(found.of_axes("PADDING_", 0))
        and found.of_axes("stride_x", 0)[-found.rank :] == steps[-found.rank :]
        and (sizes["stride_xc"], sizes["stride_xn"]) == (1, depth * steps[0])
    )


def _is_packed_weight(found: Convolution) -> bool:
    _, height, width = found.of_axes("KERNEL_", 1)
    channels = found.sizes["IN_C"]
    steps = (height * width * channels, width * channels, channels)
    sizes = found.sizes
    return (
        _channels(found) == channels
        and found.of_axes("stride_w", 0)[-found.rank :] == steps[-found.rank :]
        and (sizes["stride_wc_in"], sizes["stride_wc_out"]) == (1, found.taps * channels)
    )
