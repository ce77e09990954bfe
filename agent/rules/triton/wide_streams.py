"""Blocks, warps and registers up to the device's limits for kernels that stream, beyond those that a file declares."""

from __future__ import annotations

import math

from ....core import Parameter, PythonKernel
from ....core.expressions import Expression
from ....core.space_inference import parameter_values
from ...analysis.change import with_declared
from ...analysis.source import insert_before_definitions
from ...analysis.triton import Launch, TritonKernel, axes_of
from ..rule import Change, Rewritten, need, require, rule

WARPS = (1, 2, 4, 8, 16, 32)
REGISTERS = (32, 64, 128, 255)
EACH = 64
"""Elements of a block that a thread holds at most: two blocks at a time fit its 255 registers, with their addresses."""
LARGEST = 16384


@rule("memory", "streams", TritonKernel.read).because(
    "larger blocks give each thread more bytes under way, in 16-byte accesses; fewer registers, more threads"
)
def wide_streams(kernel: TritonKernel, change: Change) -> Rewritten:
    """Extend the declared values of blocks and warps of launches without products, and give them a limit on registers.

    Only values are added. Every block is a constant of the file, a power of two now, which the launch gives to a
    parameter that a `tl.arange` takes; constraints of the file stay. With fewer registers per thread more programs
    share a multiprocessor, which hides more latency; the values change no result.
    """
    source = change.kernel
    values, constraints = dict(parameter_values(source)), list(source.declared_constraints)
    limits: dict[str, int] = {}
    widened: set[str] = set()

    def widen(launch: Launch, change: Change) -> None:
        require(not launch.function.has_products, "the function has products")
        require("maxnreg" not in launch.options, "the launch limits registers already")
        blocks, warps = _blocks(launch, source), launch.constant("num_warps") or ""
        require(warps in source.config, "the number of warps is not a constant of the file")
        for name in (*blocks, warps):
            numbers = [item for item in values.get(name, ()) if isinstance(item, int)]
            present = int(source.config[name])
            # From a quarter of the present value up, 1 to 8 where it is small.
            low, high = max(1, present // 4), max(8, min(present * 8, LARGEST))
            more = WARPS if name == warps else [1 << step for step in range(15) if low <= 1 << step <= high]
            values[name] = sorted({*numbers, present, *more})
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
        module = insert_before_definitions(module, f"{name} = {value!r}\n")
        values[name] = sorted({*REGISTERS, value})
    own, start, unique = {*widened, *limits}, {**source.config, **limits}, list(dict.fromkeys(constraints))
    change.parameters += [Parameter(item, values[item], start[item]) for item in values if item in own]
    change.constraints += [item for item in unique if Expression(item).names <= own]
    did = f"widened the search to blocks of {LARGEST} and {max(WARPS)} warps, with a limit on registers"
    return change.finished(with_declared(module, values, unique), did)


def _blocks(launch: Launch, kernel: PythonKernel) -> list[str]:
    """Return the constants that are the sides of the function's block. Raises NotApplicableError for another size."""
    axes = need(axes_of(launch), "the host does not know the size of a block")
    constants = [axis for axis in axes if isinstance(kernel.config.get(axis), int)]
    known = all(axis in constants or axis.isdigit() for axis in axes)
    require(constants and known, "a side of the block is not a constant of the file")
    powers = all(int(kernel.config[constant]).bit_count() == 1 for constant in constants)
    require(powers, "a side of the block is not a power of two")
    return constants
