"""Finds the constants of a launch's matrix product tile, and their constraints by a GPU's limits."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from ....core import Config, PythonKernel, Value
from ....core.expressions import Expression
from ..applicability import NotApplicableError, need, require
from ..template import matches
from .dots import Dot, dots_of
from .function import Function, argument
from .kernel import Launch

TENSOR_CORES, VECTOR_UNITS = 128, 64
"""Accumulators of a thread above which registers spill: products on the vector units keep operands there too, and those
that add each step's sum in fp32 (Triton's three TF32 products, promoted ones of bf16) have a second sum."""
SHARED_KIB = 227
"""Shared memory of a block in KiB, on sm_90."""
_MANY = 8
_SIDES = (16, 32, 64, 128, 256, 512)
_WARPS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Tile:
    """Constants of the file by their role in one product: BLOCK_M x BLOCK_N sums over steps of BLOCK_K."""

    launch: Launch
    m: str
    n: str
    k: str
    warps: str
    stages: str
    choice: str | None
    """The constant that chooses the precision, if there is one."""
    precise: bool
    """Whether all products have IEEE precision, which tensor cores do not have."""
    promoted: bool = False
    """Whether the sum of each step is separate from the whole sum."""

    @classmethod
    def of(cls, launch: Launch, kernel: PythonKernel) -> Tile:
        """Return the tile of a launch.

        Raises NotApplicableError if one of its five parameters is not a constant of the file.
        """
        dots = dots_of(launch.function)
        sides = need(sides_of(launch.function, dots), "no product of one tile")
        chosen = {dot.choice for dot in dots}
        roles = [*sides, "num_warps", "num_stages"]
        found = {role: launch.constant(role) for role in roles}
        constants = [item for item in found.values() if item is not None and isinstance(kernel.config.get(item), int)]
        other = [role for role, argument in found.items() if argument not in constants]
        require(not other, f"{', '.join(other)} of the launch are not constants of the file")
        require(len(set(constants)) == len(roles) and len(chosen) == 1, "one constant has two roles, or two precisions")
        (parameter,) = chosen
        choice = launch.constant(parameter) if parameter else None
        rows, columns, step, warps, stages = constants
        precise = all(dot.precision == "ieee" for dot in dots)
        promoted = any(dot.inner for dot in dots)
        return cls(launch, rows, columns, step, warps, stages, choice, precise, promoted)

    @property
    def names(self) -> tuple[str, str, str, str, str]:
        """The five constants."""
        return self.m, self.n, self.k, self.warps, self.stages

    def accumulator_limit(self, present: Config) -> str:
        """Return a constraint: accumulators fit the registers, or are no more than at the present values."""
        rows, columns, _, warps, _ = (present[name] for name in self.names)
        now = -(-int(rows) * int(columns) // (int(warps) * 32))
        vector, tensor = max(VECTOR_UNITS, now), max(TENSOR_CORES, now)
        each: object = vector if self.precise or self.promoted else tensor
        if self.choice and vector < tensor:
            each = f"({tensor} if {self.choice} == 'bf16x3' else {vector})"
        return f"{self.m} * {self.n} <= {self.warps} * 32 * {each}"

    def limits_accumulators(self, text: str) -> bool:
        """Return whether a constraint is a limit on accumulators per thread, whatever it is written like.

        It is, where it holds up to some number of them and for no more, for all tiles and warps, and perhaps one number
        for each precision.
        """
        expression = Expression(text)
        if expression.names - {self.choice} != {self.m, self.n, self.warps}:
            return False
        return all(self._limits(expression, choice) for choice in ("ieee", "bf16x3"))

    def _limits(self, expression: Expression, choice: str) -> bool:
        held: list[float] = []
        broken: list[float] = []
        for rows, columns, warps in itertools.product(_SIDES, _SIDES, _WARPS):
            values = {self.m: rows, self.n: columns, self.warps: warps, self.choice or "": choice}
            (held if expression(values) else broken).append(rows * columns / (warps * 32))
        return bool(held) and bool(broken) and max(held) < min(broken)


def warps_for_two(kernel: PythonKernel, launches: Sequence[Launch]) -> Config:
    """Return the warps of products whose steps have a sum of their own: two accumulators of a thread fit, if 8 do it.

    They change only where a file declares 8, or declares nothing.
    """
    found: dict[str, Value] = {}
    for launch in launches:
        try:
            tile = Tile.of(launch, kernel)
        except NotApplicableError:
            continue
        rows, columns, _, warps, _ = (int(kernel.config[name]) for name in tile.names)
        crowded = 2 * rows * columns > warps * 32 * TENSOR_CORES
        if crowded and warps < _MANY and _MANY in kernel.declared_values.get(tile.warps, [_MANY]):
            found[tile.warps] = _MANY
    return Config(found)


def sides_of(function: Function, dots: Sequence[Dot]) -> tuple[str, str, str] | None:
    """Return the parameters that are the accumulator's sides and the step of the sum, if all products share them."""
    found = set()
    for dot in dots:
        start = function.value_of(dot.accumulator) or function.assignments.get(dot.accumulator, (None,))[0]
        if not isinstance(start, cst.Call) or not matches(start, "tl.zeros(q__)"):
            return None
        shape = argument(start, "shape", 0)
        if not isinstance(shape, cst.Tuple | cst.List):
            return None
        found.add(tuple(element.value.value for element in shape.elements if isinstance(element.value, cst.Name)))
    sides = found.pop() if len(found) == 1 else ()
    if len(sides) != 2:
        return None
    ranges = [argument(call, "end", 1) for call in function.calls("arange")]
    steps = {item.value for item in ranges if isinstance(item, cst.Name)} & function.constexprs - set(sides)
    return (sides[0], sides[1], steps.pop()) if len(steps) == 1 else None
