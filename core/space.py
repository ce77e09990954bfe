"""Search spaces: named parameters with ordered values, and constraints over them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from .errors import SpaceError
from .expressions import Expression

if TYPE_CHECKING:
    from .encoded_space import EncodedSpace

Value = int | float | str | bool

_NOTHING: Mapping[str, Value] = MappingProxyType({})


class Config(Mapping[str, Value]):
    """Values of parameters: an immutable, hashable mapping."""

    __slots__ = ("_hash", "_values")

    def __init__(self, values: Mapping[str, Value] | Iterable[tuple[str, Value]] = ()) -> None:
        self._values = dict(values)
        self._hash = hash(frozenset(self._values.items()))

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self._values == dict(other) if isinstance(other, Mapping) else NotImplemented

    def __reduce__(self) -> tuple[type[Config], tuple[dict[str, Value]]]:
        # The remembered hash is that of this process: texts hash differently in every other.
        return Config, (self._values,)

    def __repr__(self) -> str:
        return f"Config({self})"

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self._values.items())


class Parameter:
    """A name and its values, in an order in which those next to each other behave alike."""

    def __init__(self, name: str, values: Sequence[Value], default: Value | None = None) -> None:
        if not name.strip():
            raise SpaceError("a parameter has no name; use one such as BLOCK_M")
        if not values:
            raise SpaceError(f"parameter {name} has no values; give at least one")
        if len(set(values)) != len(values):  # 1, 1.0 and True are one value
            raise SpaceError(f"parameter {name} names a value twice: {list(values)}")
        if any(isinstance(value, float) and not math.isfinite(value) for value in values):
            raise SpaceError(f"parameter {name} has a value that is no finite number: {list(values)}")
        self.name = name
        self.values: tuple[Value, ...] = tuple(values)
        self.default: Value = self.values[0] if default is None else default
        if self.default not in self.values:
            raise SpaceError(f"parameter {name}: default {default!r} is not among its values {list(values)}")

    @property
    def ordered(self) -> bool:
        """Whether the values are numbers that rise or fall, so that distance has a meaning."""
        numbers = [value for value in self.values if isinstance(value, int | float) and not isinstance(value, bool)]
        return len(numbers) == len(self.values) and numbers in (
            sorted(numbers),
            sorted(numbers, reverse=True),
        )

    def encode(self, value: Value) -> float:
        """A number for a cost model: log2 of positive numbers, else the position."""
        if self.ordered and all(float(v) > 0 for v in self.values):
            return math.log2(float(value))
        return float(self.values.index(value))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Parameter):
            return NotImplemented
        return (self.name, self.values, self.default) == (other.name, other.values, other.default)

    def __hash__(self) -> int:
        return hash((self.name, self.values, self.default))

    def __repr__(self) -> str:
        return f"Parameter({self.name!r}, {list(self.values)}, default={self.default!r})"


class SearchSpace:
    """All configs of some parameters that satisfy every constraint, or those of a list.

    Samples and the iteration never leave the space. An empty space, or a constraint over unknown names, raises
    `SpaceError`.
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        constraints: Sequence[str] = (),
        listed: Sequence[Config] | None = None,
    ) -> None:
        self.parameters = tuple(parameters)
        self.constraints = tuple(constraints)
        self.listed = None if listed is None else tuple(dict.fromkeys(listed))
        self._listed = None if self.listed is None else frozenset(self.listed)
        self.names = tuple(parameter.name for parameter in self.parameters)
        if len(set(self.names)) != len(self.names):
            raise SpaceError(f"a parameter is named twice: {', '.join(self.names)}")
        self.checks = [Expression(text) for text in self.constraints]
        for check in self.checks:
            if unknown := sorted(check.names - set(self.names)):
                raise SpaceError(
                    f"constraint {check.text!r} uses {', '.join(unknown)}; the parameters are {', '.join(self.names)}"
                )
        if self.listed is not None and not self.listed:
            raise SpaceError("the space lists no config; give at least one")
        self._require_a_member()

    def _require_a_member(self) -> None:
        """Raise `SpaceError` with the first constraint that leaves nothing, and those that it takes to do so."""
        for number, check in enumerate(self.checks, start=1):
            related = next(group for group in _related(self.checks[:number]) if check in group)
            for checks in ([check], related):
                if next(self._walk(self._named_by(checks), checks), None) is None:
                    why = " together with ".join(repr(one.text) for one in reversed(checks))
                    raise SpaceError(f"no config satisfies {why}; loosen it, or add values")

    def _named_by(self, checks: Iterable[Expression]) -> list[Parameter]:
        names = frozenset[str]().union(*(check.names for check in checks))
        return [parameter for parameter in self.parameters if parameter.name in names]

    @classmethod
    def of(
        cls, values: Mapping[str, Sequence[Value]], constraints: Sequence[str] = (), **defaults: Value
    ) -> SearchSpace:
        """A space from a mapping of names to values, with optional defaults by name."""
        parameters = [Parameter(name, choices, defaults.get(name)) for name, choices in values.items()]
        return cls(parameters, constraints)

    @classmethod
    def listing(cls, configs: Iterable[Config]) -> SearchSpace:
        """The space of just these configs, with numbers in rising order; all must name the same parameters."""
        members = list(configs)
        names = list(members[0]) if members else []
        if any(set(config) != set(names) for config in members):
            raise SpaceError("the configs of a list must all name the same parameters")
        values = {name: list(dict.fromkeys(config[name] for config in members)) for name in names}
        parameters = [
            Parameter(name, v if any(isinstance(x, str) for x in v) else sorted(v)) for name, v in values.items()
        ]
        return cls(parameters, listed=members)

    @property
    def cardinality(self) -> int:
        """The number of configs before constraints."""
        return math.prod(len(parameter.values) for parameter in self.parameters)

    @cached_property
    def size(self) -> int:
        """The number of configs that satisfy the constraints."""
        members = self.encoded.members
        return sum(1 for _ in self) if members is None else len(members)

    @cached_property
    def encoded(self) -> EncodedSpace:
        """The space as rows of integers, for searches that look at many configs at once."""
        from .encoded_space import (
            EncodedSpace,  # numpy takes a tenth of a second, which a help text should not wait for
        )

        return EncodedSpace(self)

    @property
    def default(self) -> Config:
        """The config of all defaults, or the first member when a constraint forbids it."""
        config = Config((parameter.name, parameter.default) for parameter in self.parameters)
        return config if config in self else next(iter(self))

    def __iter__(self) -> Iterator[Config]:
        if self.listed is not None:
            yield from self.listed
            return
        yield from map(Config, self._walk(self.parameters, self.checks))

    def _walk(
        self,
        parameters: Sequence[Parameter],
        checks: Sequence[Expression],
        rng: random.Random | None = None,
        chosen: Mapping[str, Value] = _NOTHING,
    ) -> Iterator[Mapping[str, Value]]:
        """The choices of values that begin with those `chosen`; `rng` shuffles the order.

        A constraint is decided as soon as all its names have values.
        """
        last = next(reversed(list(chosen)), None)
        due = [check for check in checks if check.names <= chosen.keys() and (last in check.names or not chosen)]
        if not all(check(chosen) for check in due):
            return
        if len(chosen) == len(parameters):
            yield chosen
            return
        parameter = parameters[len(chosen)]
        values = rng.sample(parameter.values, len(parameter.values)) if rng else parameter.values
        for value in values:
            yield from self._walk(parameters, checks, rng, {**chosen, parameter.name: value})

    def __contains__(self, config: object) -> bool:
        if not isinstance(config, Mapping) or set(config) != set(self.names):
            return False
        known = all(config[parameter.name] in parameter.values for parameter in self.parameters)
        return known and self._allowed(config)

    def _allowed(self, config: Mapping[str, Value]) -> bool:
        if self._listed is not None:
            return Config(config) in self._listed
        return all(check(config) for check in self.checks)

    def sample(self, rng: random.Random) -> Config:
        """A member drawn by chance; uniformly, unless the constraints leave so few that only a search finds one."""
        if self.listed is not None:
            return rng.choice(self.listed)
        for _ in range(200):
            config = Config((parameter.name, rng.choice(parameter.values)) for parameter in self.parameters)
            if self._allowed(config):
                return config
        found = {parameter.name: rng.choice(parameter.values) for parameter in self.parameters}
        for checks in _related(self.checks):
            found |= next(self._walk(self._named_by(checks), checks, rng))
        return Config(found)

    def __repr__(self) -> str:
        return f"SearchSpace({list(self.parameters)}, constraints={list(self.constraints)})"


def _related(checks: Sequence[Expression]) -> list[list[Expression]]:
    """Constraints in groups that share no parameter, so that each group can be satisfied by itself."""
    groups: list[tuple[frozenset[str], list[Expression]]] = []
    for check in checks:
        names, related = check.names, [check]
        apart = []
        for other, members in groups:
            if other & names:
                names, related = names | other, members + related
            else:
                apart.append((other, members))
        groups = [*apart, (names, related)]
    return [members for _, members in groups]
