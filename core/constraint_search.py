"""Members of a space by search: backtracking that narrows the values left to every parameter, within bounds.

After each choice the values that no longer fit are taken from the other parameters: for constraints over two
parameters until every value left has a partner (Mackworth, Consistency in networks of relations, 1977), for wider
ones when a single parameter is left open. Where members are drawn, the parameter with the fewest values comes next
and the search begins again after ever more steps (Luby et al. 1993 say why: the time of one attempt varies widely).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from .errors import SpaceError
from .expressions import Expression

if TYPE_CHECKING:
    from .space import Parameter, Value

STEPS = 30_000
"""Choices of a value without finding a member, after which a search gives up."""
FIRST_ATTEMPT = 200
"""Steps before the search for one member begins again; each attempt has twice those of the last."""
TABLE = 50_000
"""Pairs of values up to which a constraint over two parameters is decided beforehand."""

Domains = list[int]
"""Per parameter the values that are left, as bits of a number."""


class _OutOfSteps(Exception):
    """A search has used up its steps."""


class _Steps:
    """Counts choices, and ends a search that makes too many."""

    def __init__(self, limit: int) -> None:
        self._limit = self._left = limit

    def take(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _OutOfSteps

    def renew(self) -> None:
        self._left = self._limit


class ConstraintSearch:
    """The choices of values for some parameters that satisfy constraints over these and no others."""

    def __init__(self, parameters: Sequence[Parameter], checks: Sequence[Expression]) -> None:
        self._parameters = tuple(parameters)
        self._position = {parameter.name: at for at, parameter in enumerate(self._parameters)}
        self._texts = [check.text for check in checks]
        # Per parameter: others with, per value, the bits of the others' values that go with it.
        self._partners: list[dict[int, list[int]]] = [{} for _ in self._parameters]
        self._wide: list[list[tuple[Expression, tuple[int, ...]]]] = [[] for _ in self._parameters]
        self._start: Domains | None = [(1 << len(parameter.values)) - 1 for parameter in self._parameters]
        for check in checks:
            if self._start is not None and not self._add(check, self._start):
                self._start = None
        if self._start is not None and not self._narrow(self._start, range(len(self._parameters))):
            self._start = None

    def find(self, rng: random.Random) -> Mapping[str, Value] | None:
        """A member drawn by chance, or None where there is none. Raises `SpaceError` at the limit of steps."""
        limit, spent = FIRST_ATTEMPT, 0
        while spent < STEPS:
            try:
                return next(self._walk(self._start, _Steps(limit), rng), None)
            except _OutOfSteps:
                spent += limit
                limit *= 2
        raise self._given_up()

    def members(self) -> Iterator[Mapping[str, Value]]:
        """All members in the order of their values. Raises `SpaceError` where too many steps find no further one."""
        steps = _Steps(STEPS)
        try:
            for member in self._walk(self._start, steps, None):
                yield member
                steps.renew()
        except _OutOfSteps:
            raise self._given_up() from None

    def _given_up(self) -> SpaceError:
        names = ", ".join(parameter.name for parameter in self._parameters)
        return SpaceError(
            f"no config was found in {STEPS} steps that satisfies the {len(self._texts)} constraints over {names}, "
            f"{' and '.join(map(repr, self._texts[:3]))}{' and others' if len(self._texts) > 3 else ''}; loosen them, "
            "or give fewer values"
        )

    def _add(self, check: Expression, domains: Domains) -> bool:
        """Take in one constraint; False where it leaves a parameter without values."""
        at = tuple(self._position[name] for name in sorted(check.names))
        if len(at) == 0:
            return bool(check({}))
        if len(at) == 1:
            return self._filter(check, at[0], {}, domains)
        if len(at) == 2 and len(self._parameters[at[0]].values) * len(self._parameters[at[1]].values) <= TABLE:
            self._tabulate(check, *at)
        else:
            for item in at:
                self._wide[item].append((check, at))
        return True

    def _tabulate(self, check: Expression, first: int, second: int) -> None:
        """Decide a constraint over two parameters for all pairs of their values."""
        one, other = self._parameters[first], self._parameters[second]
        forth, back = [0] * len(one.values), [0] * len(other.values)
        for i, value in enumerate(one.values):
            for j, partner in enumerate(other.values):
                if check({one.name: value, other.name: partner}):
                    forth[i] |= 1 << j
                    back[j] |= 1 << i
        for at, partner_at, table in ((first, second, forth), (second, first, back)):
            known = self._partners[at].get(partner_at)
            self._partners[at][partner_at] = (
                table if known is None else [a & b for a, b in zip(known, table, strict=True)]
            )

    def _filter(self, check: Expression, at: int, others: Mapping[str, Value], domains: Domains) -> bool:
        """Keep the values of one parameter that satisfy the constraint beside the `others`."""
        name, values = self._parameters[at].name, self._parameters[at].values
        domains[at] = sum(1 << i for i in _bits(domains[at]) if check({**others, name: values[i]}))
        return domains[at] != 0

    def _narrow(self, domains: Domains, changed: Iterable[int]) -> bool:
        """Take away values that cannot be part of a member; False where a parameter has none left."""
        pending = set(changed)
        while pending:
            at = pending.pop()
            for other, table in self._partners[at].items():
                fits = 0
                for i in _bits(domains[at]):
                    fits |= table[i]
                left = domains[other] & fits
                if not left:
                    return False
                if left != domains[other]:
                    domains[other] = left
                    pending.add(other)
            for check, involved in self._wide[at]:
                open_ones = [item for item in involved if not _single(domains[item])]
                if len(open_ones) > 1:
                    continue
                fixed = self._values(domains, [item for item in involved if item not in open_ones])
                if not open_ones:
                    if not check(fixed):
                        return False
                    continue
                before = domains[open_ones[0]]
                if not self._filter(check, open_ones[0], fixed, domains):
                    return False
                if domains[open_ones[0]] != before:
                    pending.add(open_ones[0])
        return True

    def _walk(self, domains: Domains | None, steps: _Steps, rng: random.Random | None) -> Iterator[Mapping[str, Value]]:
        """The members among `domains`; `rng` makes the order one of chance, else it is that of the values."""
        if domains is None:
            return
        undecided = [at for at, left in enumerate(domains) if not _single(left)]
        if not undecided:
            yield self._values(domains, range(len(domains)))
            return
        at = undecided[0] if rng is None else min(undecided, key=lambda one: (domains[one].bit_count(), rng.random()))
        choices = list(_bits(domains[at]))
        if rng is not None:
            rng.shuffle(choices)
        for choice in choices:
            steps.take()
            narrowed = domains.copy()
            narrowed[at] = 1 << choice
            if self._narrow(narrowed, [at]):
                yield from self._walk(narrowed, steps, rng)

    def _values(self, domains: Domains, which: Iterable[int]) -> dict[str, Value]:
        """The values of parameters that have one left."""
        return {self._parameters[at].name: self._parameters[at].values[domains[at].bit_length() - 1] for at in which}


def _bits(number: int) -> Iterator[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


def _single(left: int) -> bool:
    return left & (left - 1) == 0
