"""Lay a convolution's input out with its channels side by side, in a separate kernel at every call."""

from __future__ import annotations

from collections.abc import Mapping

from ...analysis.triton import COLUMNS, ROWS, Launch, Stride, TritonKernel, channel_load
from ..rule import Change, Rewritten, rule

_PIXELS, _CHANNELS = 64, 32
"""The tile of the packing kernel: whole cache lines on both sides."""
_PACK = """
@triton.jit
def pack_channels(x_ptr, packed_ptr, n_channels, n_pixels, BLOCK_PIXELS: tl.constexpr, BLOCK_CHANNELS: tl.constexpr):
    # From (samples, channels, pixels) to (samples, pixels, channels), a tile at a time.
    n_tiles = tl.cdiv(n_pixels, BLOCK_PIXELS)
    first = (tl.program_id(0) // n_tiles).to(tl.int64) * n_channels * n_pixels
    pixels = tl.program_id(0) % n_tiles * BLOCK_PIXELS + tl.arange(0, BLOCK_PIXELS)
    channels = tl.program_id(1) * BLOCK_CHANNELS + tl.arange(0, BLOCK_CHANNELS)
    inside = (channels[:, None] < n_channels) & (pixels[None, :] < n_pixels)
    tile = tl.load(x_ptr + first + channels[:, None] * n_pixels + pixels[None, :], mask=inside)
    to = packed_ptr + first + pixels[:, None] * n_channels + channels[None, :]
    tl.store(to, tl.trans(tile), mask=tl.trans(inside))
"""


@rule("memory", "products", TritonKernel.read).because(
    "a tile's summed channels lie side by side: loads are 16 bytes wide, and tensor cores read them as they come"
)
def channels_last(kernel: TritonKernel, change: Change) -> Rewritten:
    """Copy the input of an implicit GEMM to (samples, pixels, channels).

    Needs an operand of a product that is one load of a dense tensor, at a sum of indices: one of the summed channels;
    those of a pixel, which the mask holds between zero and the next one's stride, up to the channels'; and any whose
    strides are whole samples. Then the copy is a permutation, whatever the filter's taps, strides and padding are.
    """
    pack = change.fresh("pack_channels")
    change.each(kernel.launched_once(), lambda launch, change: _pack(launch, change, pack))
    change.helper(_PACK.replace("pack_channels", pack))
    return change.rewritten("packed the input with its channels side by side")


def _pack(launch: Launch, change: Change, pack: str) -> None:
    launch.require_alone()
    found = channel_load(launch)
    strides = {name: stride.times(found.channels) for name, stride in found.inner.items()}
    change.put(found.load.pointer, f"{found.load.base} + {_sum({**found.outer, **strides})} + {found.channel}")
    x, packed = launch.texts[found.load.base], change.fresh("channels_last")
    channels, pixels = (item.on_host(launch.texts) for item in (found.channels, found.pixels))
    host = (
        f"{packed} = torch.empty_like({x})\n"
        f"{pack}[({x}.numel() // ({channels} * {pixels}) * triton.cdiv({pixels}, {_PIXELS}), "
        f"triton.cdiv({channels}, {_CHANNELS}))]("
        f"{x}, {packed}, {channels}, {pixels}, BLOCK_PIXELS={_PIXELS}, BLOCK_CHANNELS={_CHANNELS}, num_warps=4)\n"
    )
    change.put(launch.node, launch.relaunched(launch.function.name, {found.load.base: packed}))
    change.before(launch.statement, host)


def _sum(strides: Mapping[str, Stride]) -> str:
    """Write indices times their strides, those of one axis in one bracket: they are vectors there."""
    by_axis: dict[str, list[str]] = {}
    for index, stride in strides.items():
        axis = next((item for item in (ROWS, COLUMNS) if index.endswith(item)), "")
        name = index.removesuffix(axis)
        by_axis.setdefault(axis, []).append(name if stride.text == "1" else f"{name} * {stride.text}")
    return " + ".join(f"({' + '.join(terms)}){axis}" for axis, terms in by_axis.items())
