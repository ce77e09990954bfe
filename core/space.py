"""Search spaces: named parameters with ordered values, and constraints over them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from .constraint_search import ConstraintSearch
from .errors import SpaceError
from .expressions import Expression

if TYPE_CHECKING:
    from .encoded_space import EncodedSpace

Value = int | float | str | bool

NAMED = 6
"""Maximum number of contradicting constraints that an error names."""
_NO_SIZES: Mapping[str, int] = MappingProxyType({})


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
        # The cached hash is valid in this process only, since hashes of strings are randomized.
        return Config, (self._values,)

    def __repr__(self) -> str:
        return f"Config({self})"

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self._values.items())


class Parameter:
    """A name and its values, ordered so that adjacent values behave similarly."""

    def __init__(self, name: str, values: Sequence[Value], default: Value | None = None) -> None:
        if not name.strip():
            raise SpaceError("a parameter has no name; use one such as BLOCK_M")
        if not values:
            raise SpaceError(f"parameter {name} has no values; give at least one")
        if len(set(values)) != len(values):  # 1, 1.0 and True are equal
            raise SpaceError(f"parameter {name} names a value twice: {list(values)}")
        if any(isinstance(value, float) and not math.isfinite(value) for value in values):
            raise SpaceError(f"parameter {name} has a value that is not a finite number: {list(values)}")
        self.name = name
        self.values: tuple[Value, ...] = tuple(values)
        self.default: Value = self.values[0] if default is None else default
        if self.default not in self.values:
            raise SpaceError(f"parameter {name}: default {default!r} is not among its values {list(values)}")

    @property
    def ordered(self) -> bool:
        """Whether the values are monotonic numbers, so that distances are meaningful."""
        numbers = [value for value in self.values if isinstance(value, int | float) and not isinstance(value, bool)]
        return len(numbers) == len(self.values) and numbers in (
            sorted(numbers),
            sorted(numbers, reverse=True),
        )

    def encode(self, value: Value) -> float:
        """Return a number for a cost model: log2 of positive numbers, otherwise the index."""
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
    """The configs of some parameters that satisfy all constraints, or a list of configs.

    Constraints are expressions over parameters and over the named `sizes` of a problem. Samples and iteration yield
    members only. Raises `SpaceError` for an empty space and for a constraint over unknown names. Methods that need a
    member raise it, too, if the constraints are too tight to find one within a limit.
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        constraints: Sequence[str] = (),
        listed: Sequence[Config] | None = None,
        sizes: Mapping[str, int] = _NO_SIZES,
    ) -> None:
        self.parameters = tuple(parameters)
        self.constraints = tuple(constraints)
        self.listed = None if listed is None else tuple(dict.fromkeys(listed))
        self._listed = None if self.listed is None else frozenset(self.listed)
        self.names = tuple(parameter.name for parameter in self.parameters)
        if len(set(self.names)) != len(self.names):
            raise SpaceError(f"a parameter is named twice: {', '.join(self.names)}")
        self.sizes = {name: size for name, size in sizes.items() if name not in self.names}
        """Sizes that constraints may use. Parameters hide sizes of the same name."""
        self.checks = [self._check(text) for text in self.constraints]
        if self.listed is not None and not self.listed:
            raise SpaceError("the space lists no config; give at least one")
        self._require_a_member()

    def _check(self, text: str) -> Expression:
        check = Expression(text, self.sizes)
        if unknown := sorted(check.names - set(self.names)):
            sizes = f", the problem's sizes {', '.join(self.sizes)}" if self.sizes else ""
            raise SpaceError(
                f"constraint {text!r} uses {', '.join(unknown)}; the parameters are {', '.join(self.names)}{sizes}"
            )
        return check

    def _require_a_member(self) -> None:
        """Raise `SpaceError` with the first constraint that no config satisfies, and the constraints it contradicts."""
        rng = random.Random(0)
        if self._allowed(self._defaults) or all(search.find(rng) is not None for search in self._searches):
            return
        for number, check in enumerate(self.checks, start=1):
            related = next(group for group in _related(self.checks[:number]) if check in group)
            for checks in ([check], related):
                if self._search(checks).find(rng) is None:
                    named = [repr(item.text) for item in reversed(checks)]
                    others = [f"{len(named) - NAMED} others"] if len(named) > NAMED else []
                    why = " together with ".join([*named[:NAMED], *others])
                    raise SpaceError(f"no config satisfies {why}; loosen it, or add values")

    @cached_property
    def _searches(self) -> list[ConstraintSearch]:
        """Return one search per group of constraints that share parameters."""
        return [self._search(checks) for checks in _related(self.checks)]

    def _search(self, checks: Sequence[Expression]) -> ConstraintSearch:
        return ConstraintSearch(self._named_by(checks), checks)

    def _named_by(self, checks: Iterable[Expression]) -> list[Parameter]:
        names = frozenset[str]().union(*(check.names for check in checks))
        return [parameter for parameter in self.parameters if parameter.name in names]

    @classmethod
    def of(
        cls,
        values: Mapping[str, Sequence[Value]],
        constraints: Sequence[str] = (),
        sizes: Mapping[str, int] = _NO_SIZES,
        **defaults: Value,
    ) -> SearchSpace:
        """Return a space of named values, with optional defaults by name."""
        parameters = [Parameter(name, choices, defaults.get(name)) for name, choices in values.items()]
        return cls(parameters, constraints, sizes=sizes)

    @classmethod
    def listing(cls, configs: Iterable[Config]) -> SearchSpace:
        """Return the space of exactly these configs, with numbers in ascending order.

        All must have the same parameters.
        """
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
        """Number of configs without constraints."""
        return math.prod(len(parameter.values) for parameter in self.parameters)

    @cached_property
    def size(self) -> int:
        """Number of configs that satisfy the constraints."""
        members = self.encoded.members
        return sum(1 for _ in self) if members is None else len(members)

    @cached_property
    def encoded(self) -> EncodedSpace:
        """The space as rows of integers, for searches over many configs at once."""
        from .encoded_space import (
            EncodedSpace,  # importing numpy takes a tenth of a second, which would delay --help
        )

        return EncodedSpace(self)

    @property
    def _defaults(self) -> Config:
        return Config((parameter.name, parameter.default) for parameter in self.parameters)

    @cached_property
    def default(self) -> Config:
        """The config of all defaults, or the first member if a constraint excludes it."""
        return self._defaults if self._defaults in self else next(iter(self))

    def __iter__(self) -> Iterator[Config]:
        """Yield the members in the order of their values.

        Raises `SpaceError` if the next one takes too long to find.
        """
        if self.listed is not None:
            yield from self.listed
            return
        yield from map(Config, ConstraintSearch(self.parameters, self.checks).members())

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
        """Draw a member. The draw is uniform, unless members are so rare that only a search finds one.

        Raises `SpaceError` if the search finds none within its limit.
        """
        if self.listed is not None:
            return rng.choice(self.listed)
        for _ in range(200):
            config = Config((parameter.name, rng.choice(parameter.values)) for parameter in self.parameters)
            if self._allowed(config):
                return config
        found = {parameter.name: rng.choice(parameter.values) for parameter in self.parameters}
        for search in self._searches:
            found |= search.find(rng) or {}
        return Config(found)

    def __repr__(self) -> str:
        named = {name: size for name, size in self.sizes.items() if any(name in check.sizes for check in self.checks)}
        sizes = f", sizes={named}" if named else ""
        return f"SearchSpace({list(self.parameters)}, constraints={list(self.constraints)}{sizes})"


def _related(checks: Sequence[Expression]) -> list[list[Expression]]:
    """Group constraints that share no parameter, so that each group can be satisfied separately."""
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
