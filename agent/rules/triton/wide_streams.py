"""Blocks, warps and registers up to the device's limits for kernels that stream, beyond those that a file declares."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....core import Parameter, PythonKernel, Value
from ....core.expressions import Expression
from ....core.space_inference import parameter_values
from ...analysis.applicability import need, require
from ...analysis.change import Change, Rewritten
from ...analysis.edit import with_declared
from ...analysis.source import add_constant
from ...analysis.triton import Launch, TritonKernel, axes_of, has_products
from ..rule import rule

WARPS = (1, 2, 4, 8, 16, 32)
REGISTERS = (32, 64, 128, 255)
EACH = 64
"""Elements of a block that a thread holds at most: two blocks at a time fit its 255 registers, with their addresses."""
LARGEST = 16384


@rule(
    "wide-streams",
    category="memory",
    work="streams",
    why="larger blocks give each thread more bytes under way, in 16-byte accesses; fewer registers, more threads",
    reads=TritonKernel.read,
)
def wide_streams(kernel: TritonKernel, change: Change) -> Rewritten:
    """Extend the declared values of blocks and warps of launches without products, and give them a limit on registers.

    Only values are added. Every block is a constant of the file, a power of two now, which the launch gives to a
    parameter that a `tl.arange` takes; constraints of the file stay. With fewer registers per thread more programs
    share a multiprocessor, which hides more latency; the values change no result.
    """
    source = change.kernel
    values: dict[str, Sequence[Value]] = dict(parameter_values(source))
    constraints = list(source.declared_constraints)
    limits: dict[str, int] = {}
    widened: set[str] = set()

    def widen(launch: Launch, change: Change) -> None:
        require(not has_products(launch), "the function has products")
        require("maxnreg" not in launch.options, "the launch limits registers already")
        blocks, warps = _blocks(launch, source), launch.constant("num_warps")
        require(warps in source.config, "the number of warps is no constant of the file")
        warps = need(warps, "the number of warps is no constant of the file")
        for name, more in [*((block, _powers(int(source.config[block]))) for block in blocks), (warps, WARPS)]:
            numbers = [item for item in values.get(name, ()) if isinstance(item, int)]
            values[name] = sorted({*numbers, int(source.config[name]), *more})
            widened.add(name)
        # More than now, where a thread holds more now.
        held = math.prod(int(source.config[name]) for name in blocks)
        now = -(-held // (int(source.config[warps]) * 32))
        registers = change.fresh(f"REGISTERS_{len(limits)}" if limits else "REGISTERS")
        change.add_arguments(launch.node, {"maxnreg": registers})
        limits[registers] = min(255, 65536 // (32 * int(source.config[warps])))
        constraints.append(f"{' * '.join(blocks)} <= {warps} * 32 * {max(EACH, now)}")
        constraints.append(f"{registers} * {warps} * 32 <= 65536")

    change.each(kernel.launched_once(), widen)
    module = change.edited()
    for name, value in limits.items():
        module = add_constant(module, name, value)
        values[name] = sorted({*REGISTERS, value})
    own = {*widened, *limits}
    unique = list(dict.fromkeys(constraints))
    change.parameters += [
        Parameter(item, values[item], limits.get(item, source.config.get(item))) for item in values if item in own
    ]
    change.constraints += [item for item in unique if Expression(item).names <= own]
    did = f"widened the search to blocks of {LARGEST} and {max(WARPS)} warps, with a limit on registers"
    return change.finished(with_declared(module, values, unique), did)


def _blocks(launch: Launch, kernel: PythonKernel) -> list[str]:
    """Return the constants that are the sides of the function's block. Raises NotApplicable for another size."""
    axes = need(axes_of(launch), "the host does not know the size of a block")
    constants = [axis for axis in axes if isinstance(kernel.config.get(axis), int)]
    known = all(axis in constants or axis.isdigit() for axis in axes)
    require(constants and known, "a side of the block is no constant of the file")
    powers = all(int(kernel.config[constant]).bit_count() == 1 for constant in constants)
    require(powers, "a side of the block is no power of two")
    return constants


def _powers(present: int) -> list[int]:
    """Return the powers of two from a quarter of a value up, 1 to 8 where it is small."""
    low = max(1, present // 4)
    return [1 << step for step in range(15) if low <= 1 << step <= max(8, min(present * 8, LARGEST))]
