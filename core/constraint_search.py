"""Finds members of a space by backtracking with constraint propagation, within a limit of steps.

After each choice, values that no longer fit are removed from the other parameters: for constraints over two
parameters until every remaining value has a partner (Mackworth, Consistency in networks of relations, 1977), for wider
constraints when a single parameter is undecided. Random search takes the parameter with the fewest values next, and
restarts after ever more steps, since the time of one attempt varies widely (Luby et al. 1993).
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
"""A search gives up after this many choices without finding a member."""
FIRST_ATTEMPT = 200
"""Steps of the first attempt to find a member. Each restart has twice the steps of the last one."""
TABLE = 50_000
"""Maximum number of value pairs for which a constraint over two parameters is tabulated."""

Domains = list[int]
"""For each parameter the remaining values, as a bit set."""


class _OutOfStepsError(Exception):
    """A search has used up its steps."""


class _ChoiceLimit:
    """Counts choices and stops a search that makes too many."""

    def __init__(self, limit: int) -> None:
        self._limit = self._left = limit

    def take(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _OutOfStepsError

    def renew(self) -> None:
        self._left = self._limit


class ConstraintSearch:
    """Finds values for a group of parameters that satisfy the constraints over exactly these parameters."""

    def __init__(self, parameters: Sequence[Parameter], checks: Sequence[Expression]) -> None:
        self._parameters = tuple(parameters)
        self._position = {parameter.name: at for at, parameter in enumerate(self._parameters)}
        self._texts = [check.text for check in checks]
        # For each parameter and partner: for each value, the bit set of the partner's compatible values.
        self._partners: list[dict[int, list[int]]] = [{} for _ in self._parameters]
        self._wide: list[list[tuple[Expression, tuple[int, ...]]]] = [[] for _ in self._parameters]
        self._start: Domains | None = [(1 << len(parameter.values)) - 1 for parameter in self._parameters]
        for check in checks:
            if self._start is not None and not self._add(check, self._start):
                self._start = None
        if self._start is not None and not self._narrow(self._start, range(len(self._parameters))):
            self._start = None

    def find(self, rng: random.Random) -> Mapping[str, Value] | None:
        """Return a random member, or None if there is none. Raises `SpaceError` at the limit of steps."""
        limit, spent = FIRST_ATTEMPT, 0
        while spent < STEPS:
            try:
                return next(self._walk(self._start, _ChoiceLimit(limit), rng), None)
            except _OutOfStepsError:
                spent += limit
                limit *= 2
        raise self._given_up()

    def members(self) -> Iterator[Mapping[str, Value]]:
        """Yield all members in the order of their values. Raises `SpaceError` at the limit of steps."""
        steps = _ChoiceLimit(STEPS)
        try:
            for member in self._walk(self._start, steps, None):
                yield member
                steps.renew()
        except _OutOfStepsError:
            raise self._given_up() from None

    def _given_up(self) -> SpaceError:
        names = ", ".join(parameter.name for parameter in self._parameters)
        return SpaceError(
            f"no config was found in {STEPS} steps that satisfies the {len(self._texts)} constraints over {names}, "
            f"{' and '.join(map(repr, self._texts[:3]))}{' and others' if len(self._texts) > 3 else ''}; loosen them, "
            "or give fewer values"
        )

    def _add(self, check: Expression, domains: Domains) -> bool:
        """Add a constraint. Return False if it leaves a parameter without values."""
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
        """Tabulate a constraint over two parameters for all pairs of their values."""
        one_side, other_side = self._parameters[first], self._parameters[second]
        forth, back = [0] * len(one_side.values), [0] * len(other_side.values)
        for i, value in enumerate(one_side.values):
            for j, partner in enumerate(other_side.values):
                if check({one_side.name: value, other_side.name: partner}):
                    forth[i] |= 1 << j
                    back[j] |= 1 << i
        for at, partner_at, table in ((first, second, forth), (second, first, back)):
            known = self._partners[at].get(partner_at)
            self._partners[at][partner_at] = (
                table if known is None else [a & b for a, b in zip(known, table, strict=True)]
            )

    def _filter(self, check: Expression, at: int, others: Mapping[str, Value], domains: Domains) -> bool:
        """Keep the values of one parameter that satisfy the constraint together with `others`."""
        name, values = self._parameters[at].name, self._parameters[at].values
        domains[at] = sum(1 << i for i in _bits(domains[at]) if check({**others, name: values[i]}))
        return domains[at] != 0

    def _narrow(self, domains: Domains, changed: Iterable[int]) -> bool:
        """Remove values that no member has. Return False if a parameter has none left."""
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

    def _walk(
        self, domains: Domains | None, steps: _ChoiceLimit, rng: random.Random | None
    ) -> Iterator[Mapping[str, Value]]:
        """Yield the members within `domains`, in random order with `rng`, otherwise in the order of the values."""
        if domains is None:
            return
        undecided = [at for at, left in enumerate(domains) if not _single(left)]
        if not undecided:
            yield self._values(domains, range(len(domains)))
            return
        at = (
            undecided[0]
            if rng is None
            else min(undecided, key=lambda index: (domains[index].bit_count(), rng.random()))
        )
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
        """Return the values of the parameters that have a single value left."""
        return {self._parameters[at].name: self._parameters[at].values[domains[at].bit_length() - 1] for at in which}


def _bits(number: int) -> Iterator[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


def _single(left: int) -> bool:
    return left & (left - 1) == 0
