"""Stack blocks.

Exit codes: 0 they stand, 1 they fall, 2 wrong usage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kernelwright.core import OptionError
from kernelwright.core.events import Emit, working
from kernelwright.runtime import command, result
from kernelwright.runtime.options.option import Options as BaseOptions
from kernelwright.runtime.options.option import described, option
from kernelwright.runtime.runtime import Runtime
from pydantic import computed_field

EXAMPLES = ("stack-up red --height 3",)
POSITIONAL = ("color",)
AGENTS = True


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Stack blocks."""

    color: str = field(kw_only=False, metadata=described("Color of the blocks.", metavar="COLOR"))
    height: int = option(3, "Blocks of a stack.", at_least=1)


@dataclass(frozen=True)
class Plan(command.Plan):
    """Blocks to stack."""

    color: str
    height: int


class Result(result.Result):
    """A stack."""

    color: str
    height: int
    """In blocks."""

    @computed_field
    @property
    def stands(self) -> bool:
        """Whether it does not fall."""
        return self.height < 5

    @property
    def exit_code(self) -> int:
        """1 where it falls."""
        return 0 if self.stands else 1

    def lines(self) -> Iterator[str]:
        """A line for each block."""
        yield from [self.color] * self.height
        yield f"{self.height} blocks"


def plan(options: Options, runtime: Runtime) -> Plan:
    """Choose the blocks."""
    if not options.color:
        raise OptionError("there is no color", "give one")
    return Plan(options.color, options.height)


def run(plan: Plan, emit: Emit) -> Result:
    """Stack them."""
    with working(emit, f"stacking {plan.color}"):
        return Result(color=plan.color, height=plan.height)
