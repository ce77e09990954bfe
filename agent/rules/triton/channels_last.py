"""Lay a convolution's input out with its channels side by side, in a kernel of its own at every call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst

from ....core import Parameter, PythonKernel
from ...analysis.edit import Edit, before, edited
from ...analysis.source import expression, fresh, insert_before_definitions
from ...analysis.triton.channels import ChannelLoad, channel_load
from ...analysis.triton.function import argument
from ...analysis.triton.kernel import Launch, TritonFile
from ...analysis.triton.launching import relaunched, stands_alone, texts
from ...analysis.triton.linear import Stride
from ..rule import Machine, Rewritten, with_source
from .pack_weights import PackWeights
from .split_precision import START, with_precisions

_AXES = ("[:, None]", "[None, :]")
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


@dataclass(frozen=True)
class ChannelsLast:
    """Copy the input of an implicit GEMM to (samples, pixels, channels), and its weight to match.

    Needs an operand of a product that is one load of a dense tensor, at a sum of indices: one of the summed channels;
    those of a pixel, which the mask holds between zero and the next one's stride, up to the channels'; and any whose
    strides are whole samples. Then the copy is a permutation, whatever the filter's taps, strides and padding are. The
    weight is packed as pack-weights does it, and the precision of the products becomes a parameter as in
    split-precision, where it is none yet.
    """

    name = "channels-last"
    category = "memory"
    work = "products"
    why = "a tile's summed channels lie side by side: loads are 16 bytes wide, and tensor cores read them as they come"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with packed operands, or None where no product loads channels that are apart."""
        file = TritonFile.read(kernel)
        if file is None:
            return None
        edits: dict[cst.CSTNode, Edit] = {}
        pack = fresh("pack_channels", file.taken)
        for launch in file.launched_once():
            found = channel_load(launch) if stands_alone(launch) else None
            if found is not None:
                _rewrite(file, launch, found, pack, edits)
        if not edits:
            return None
        module = insert_before_definitions(edited(file.module, edits), _PACK.replace("pack_channels", pack))
        after = with_source(kernel, module)
        weights = PackWeights().apply(after, machine)
        after = weights.kernel if weights else after
        chosen = with_precisions(after, START)
        parameters: tuple[Parameter, ...] = chosen.parameters if chosen else ()
        did = "packed the input with its channels side by side" + (", and the weight" if weights else "")
        return Rewritten(chosen.kernel if chosen else after, did, parameters)


def _rewrite(file: TritonFile, launch: Launch, found: ChannelLoad, pack: str, edits: dict[cst.CSTNode, Edit]) -> None:
    pointer = argument(found.call, "pointer", 0)
    assert pointer is not None
    strides = {name: one.times(found.channels) for name, one in found.inner.items()}
    edits[pointer] = lambda _: expression(f"{found.base} + {_sum({**found.outer, **strides})} + {found.channel}")
    arguments = texts(launch)
    x, packed = arguments[found.base], fresh("channels_last", file.taken)
    channels, pixels = (one.on_host(arguments) for one in (found.channels, found.pixels))
    host = (
        f"{packed} = torch.empty_like({x})\n"
        f"{pack}[({x}.numel() // ({channels} * {pixels}) * triton.cdiv({pixels}, {_PIXELS}), "
        f"triton.cdiv({channels}, {_CHANNELS}))]("
        f"{x}, {packed}, {channels}, {pixels}, BLOCK_PIXELS={_PIXELS}, BLOCK_CHANNELS={_CHANNELS}, num_warps=4)\n"
    )
    call = relaunched(launch, launch.function.name, {found.base: packed})
    edits[launch.node] = lambda _: call
    edits[launch.statement] = before(host)


def _sum(strides: Mapping[str, Stride]) -> str:
    """Write indices times their strides, those of one axis in one bracket: they are vectors there."""
    by_axis: dict[str, list[str]] = {}
    for index, stride in strides.items():
        axis = next((one for one in _AXES if index.endswith(one)), "")
        name = index.removesuffix(axis)
        by_axis.setdefault(axis, []).append(name if stride.text == "1" else f"{name} * {stride.text}")
    return " + ".join(f"({' + '.join(terms)}){axis}" for axis, terms in by_axis.items())
