"""Blocks, warps and registers up to the device's limits for kernels that stream, beyond those that a file declares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from ....core import Parameter, PythonKernel, Value
from ....core.expressions import Expression
from ....core.space_inference import parameter_values
from ...analysis.edit import Edit, edited, with_arguments, with_declared
from ...analysis.source import add_constant, fresh
from ...analysis.triton.blocks import axes_of, has_products
from ...analysis.triton.kernel import Launch, TritonFile
from ..rule import Machine, Rewritten, with_source

WARPS = (1, 2, 4, 8, 16, 32)
REGISTERS = (32, 64, 128, 255)
EACH = 64
"""Elements of a block that a thread holds at most: two blocks at a time fit its 255 registers, with their addresses."""
LARGEST = 16384


@dataclass(frozen=True)
class WideStreams:
    """Extend the declared values of blocks and warps of launches without products, and give them a limit on registers.

    Only values are added. Every block is a constant of the file, a power of two now, which the launch gives to a
    parameter that a `tl.arange` takes; constraints of the file stay. With fewer registers per thread more programs
    share a multiprocessor, which hides more latency; the values change no result.
    """

    name = "wide-streams"
    category = "memory"
    work = "streams"
    why = "larger blocks give each thread more bytes under way, in 16-byte accesses; fewer registers, more threads"

    def apply(self, kernel: PythonKernel, machine: Machine) -> Rewritten | None:
        """Return the kernel with a wider space, or None where it is as wide already."""
        file = TritonFile.read(kernel)
        if file is None:
            return None
        values: dict[str, Sequence[Value]] = dict(parameter_values(kernel))
        constraints = list(kernel.declared_constraints)
        edits: dict[cst.CSTNode, Edit] = {}
        limits: dict[str, int] = {}
        widened: set[str] = set()
        for launch in file.launched_once():
            blocks = _blocks(launch, kernel)
            warps = launch.constant("num_warps")
            if not blocks or warps not in kernel.config or has_products(launch) or "maxnreg" in launch.options:
                continue
            assert warps is not None
            for name, more in [*((block, _powers(int(kernel.config[block]))) for block in blocks), (warps, WARPS)]:
                numbers = [one for one in values.get(name, ()) if isinstance(one, int)]
                values[name] = sorted({*numbers, int(kernel.config[name]), *more})
                widened.add(name)
            # More than now, where a thread holds more now.
            now = -(-_product(kernel, blocks) // (int(kernel.config[warps]) * 32))
            constraints.append(f"{' * '.join(blocks)} <= {warps} * 32 * {max(EACH, now)}")
            registers = fresh(f"REGISTERS_{len(limits)}" if limits else "REGISTERS", file.taken)
            edits[launch.node] = with_arguments({"maxnreg": registers})
            limits[registers] = min(255, 65536 // (32 * int(kernel.config[warps])))
            constraints.append(f"{registers} * {warps} * 32 <= 65536")
        if not limits:
            return None
        constraints = list(dict.fromkeys(constraints))
        module = edited(file.module, edits)
        for name, value in limits.items():
            module = add_constant(module, name, value)
            values[name] = sorted({*REGISTERS, value})
        names = {*widened, *limits}
        module = with_declared(module, values, constraints)
        own = tuple(
            Parameter(one, values[one], limits.get(one, kernel.config.get(one))) for one in values if one in names
        )
        over = tuple(one for one in constraints if Expression(one).names <= names)
        did = f"widened the search to blocks of {LARGEST} and {max(WARPS)} warps, with a limit on registers"
        return Rewritten(with_source(kernel, module), did, own, over)


def _blocks(launch: Launch, kernel: PythonKernel) -> list[str]:
    """Return the constants that are the sides of the function's block; none where another size is in it."""
    axes = axes_of(launch)
    if axes is None:
        return []
    constants = [one for one in axes if isinstance(kernel.config.get(one), int)]
    powers = all(int(kernel.config[one]).bit_count() == 1 for one in constants)
    return constants if powers and all(one in constants or one.isdigit() for one in axes) else []


def _powers(present: int) -> list[int]:
    """Return the powers of two from a quarter of a value up, 1 to 8 where it is small."""
    low = max(1, present // 4)
    return [1 << step for step in range(15) if low <= 1 << step <= max(8, min(present * 8, LARGEST))]


def _product(kernel: PythonKernel, names: Sequence[str]) -> int:
    product = 1
    for name in names:
        product *= int(kernel.config[name])
    return product
