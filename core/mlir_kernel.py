"""Kernels that are MLIR modules, with slots for the schedules of operations."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

from .errors import KernelError
from .expressions import Expression
from .kernel import Kernel
from .space import Config, SearchSpace, Value
from .text import digest_of

_MARK = re.compile(r"@\{([^}]*)\}")


@dataclass(frozen=True)
class Slot:
    """A slot in a module for the schedule of one operation: text with marks, `[@{tile_m}, @{tile_n}, 0]`.

    A mark contains an expression over the parameters. Without a config the slot is empty.
    """

    text: str

    @cached_property
    def names(self) -> frozenset[str]:
        """The parameters in its marks."""
        return frozenset[str]().union(*(Expression(match).names for match in _MARK.findall(self.text)))

    def filled(self, config: Mapping[str, Value]) -> str:
        """Return the text for a config; empty if it sets none of the slot's parameters.

        Raises `KernelError` if it sets only some of them.
        """
        if not self.names & config.keys():
            return ""
        if missing := sorted(self.names - config.keys()):
            raise KernelError(f"the config lacks {', '.join(missing)}; set all parameters of an operation or none")
        return _MARK.sub(lambda mark: str(Expression(mark[1])(config)), self.text)


@dataclass(frozen=True)
class MlirKernel(Kernel):
    """An MLIR module with slots for the schedules of its operations.

    Without a config, `source` is the original module, which IREE schedules itself. IREE also schedules each operation
    whose parameters are not set. `tuners.mlir` makes such a kernel from a module and a space.
    """

    pieces: tuple[str | Slot, ...] = ()
    """The text of the module, split at the slots, and the slots."""
    values: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    first: tuple[Config, ...] = ()
    """Likely configs, the most likely first."""
    plain: str = ""
    """The original text of the module."""
    bound: Config = field(default_factory=Config)

    @cached_property
    def digest(self) -> str:
        """Digest of target, source and possible schedules, sixteen hexadecimal digits."""
        slots = [piece.text for piece in self.pieces if isinstance(piece, Slot)]
        return digest_of("\0".join([str(self.language), str(self.target), self.source, *slots]))

    @property
    def config(self) -> Config:
        """The bound parameters; empty for the plain module."""
        return self.bound

    def bind(self, config: Mapping[str, Value]) -> Self:
        """Return the module with these parameters set in addition to those already set.

        Raises `KernelError` for unknown names, and if only some parameters of an operation are set.
        """
        if unknown := sorted(set(config) - self.values.keys()):
            raise KernelError(
                f"{self.name} has no parameter {', '.join(unknown)}; it has {', '.join(self.values) or 'none'}"
            )
        both = Config({**self.bound, **config})
        text = "".join(piece if isinstance(piece, str) else piece.filled(both) for piece in self.pieces)
        return replace(self, source=text if both else self.plain, bound=both)

    def restricted(self, names: Collection[str]) -> Self:
        """Return the kernel with the slots of these parameters only. Other slots keep their bound text."""
        wanted = frozenset(names)
        pieces = tuple(
            piece if isinstance(piece, str) or piece.names & wanted else piece.filled(self.bound)
            for piece in self.pieces
        )
        return replace(self, pieces=pieces, values={name: v for name, v in self.values.items() if name in wanted})

    @property
    def declared_values(self) -> Mapping[str, Sequence[Value]]:
        """Return the values to try, by parameter."""
        return self.values

    @property
    def declared_constraints(self) -> Sequence[str]:
        """Return the constraints over its parameters."""
        return self.constraints

    @property
    def declared_configs(self) -> Sequence[Config]:
        """Return the configs to try first."""
        return self.first

    def space(
        self, values: Mapping[str, Sequence[Value]], constraints: Sequence[str], sizes: Mapping[str, int] | None = None
    ) -> SearchSpace:
        """Return a space of its parameters. Defaults are the bound values, or those of the most likely valid config."""
        present = {**(self.first[0] if self.first else {}), **self.bound}
        defaults = {name: present[name] for name, v in values.items() if name in present and present[name] in v}
        return SearchSpace.of(values, constraints, sizes or {}, **defaults)
