"""What is known of a value: its type, the integers that it can be, and of which others it is a sum."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .names import PREFIX
from .types import CType, Interval

MAX_FACTS = 100
"""Facts that hold at one point of the program, in addition to the ranges of variables."""
_VARIABLE = re.compile(rf"\b{PREFIX}\w+", re.ASCII)


@dataclass(frozen=True)
class Term:
    """A variable, or a product, quotient and so on of variables, with its factor in a sum."""

    factor: int
    interval: Interval
    reads: frozenset[str]
    """The variables that its text names: also one that is a single number here, and may be another one later."""
    part: tuple[Sum, int] | None = None
    """A sum and a divisor, where the term is their quotient, rounded down."""


@dataclass(frozen=True)
class Sum:
    """Multiples of terms, by their text, and a constant."""

    terms: Mapping[str, Term] = field(default_factory=dict)
    constant: int = 0

    def __add__(self, other: Sum) -> Sum:
        terms = dict(self.terms)
        for name, term in other.terms.items():
            factor = term.factor + (terms[name].factor if name in terms else 0)
            terms[name] = replace(terms.get(name, term), factor=factor)
        return Sum({name: term for name, term in terms.items() if term.factor}, self.constant + other.constant)

    def times(self, factor: int) -> Sum:
        """Return a multiple."""
        terms = {name: replace(term, factor=term.factor * factor) for name, term in self.terms.items()}
        return Sum(terms if factor else {}, self.constant * factor)

    def __sub__(self, other: Sum) -> Sum:
        return self + other.times(-1)

    @property
    def interval(self) -> Interval:
        """The range of the sum."""
        found = Interval(self.constant, self.constant)
        for term in self.terms.values():
            found += term.interval * Interval(term.factor, term.factor)
        return found

    @property
    def reads(self) -> frozenset[str]:
        """The variables that it depends on."""
        return frozenset().union(*(term.reads for term in self.terms.values()))


def term(text: str, interval: Interval, part: tuple[Sum, int] | None = None) -> Sum:
    """Return a term as a sum."""
    return Sum({text: Term(1, interval, frozenset(_VARIABLE.findall(text)), part)})


@dataclass(frozen=True)
class Value:
    """An expression as the compiler gets it, and what is known of it."""

    text: str
    type: CType
    total: Sum | None = None
    """The sum that an integer equals, if proofs may rely on it; None for others, which may be anything of their type.

    What was read from memory is never one: another thread may write there between a check and a use, for which the
    compiler may read it twice."""
    known: Interval | None = None

    @property
    def interval(self) -> Interval:
        """The integers that it can be."""
        return self.type.interval if self.total is None or self.known is None else self.known


@dataclass(frozen=True)
class Fact:
    """A sum without its constant is at most `limit`."""

    total: Sum
    limit: int


@dataclass
class State:
    """What is known at one point of the program."""

    intervals: dict[str, Interval] = field(default_factory=dict)
    """Ranges of the integer variables that proofs may rely on; any other may be anything of its type."""
    facts: tuple[Fact, ...] = ()
    ended: bool = False
    """Nothing that follows is executed."""

    def copy(self) -> State:
        """Return one that changes on its own."""
        return State(dict(self.intervals), self.facts, self.ended)

    def set(self, name: str, interval: Interval | None) -> None:
        """A variable gets a value; None is any."""
        self.facts = tuple(fact for fact in self.facts if name not in fact.total.reads)
        self.intervals.pop(name, None)
        if interval is not None:
            self.intervals[name] = interval

    def tightened(self, total: Sum, interval: Interval) -> Interval:
        """Return what a sum can be, given all that is known."""
        own = total.interval
        found = interval.met(own.low, own.high)
        for fact in self.facts:
            shared = fact.total.terms.keys() & total.terms.keys()
            for times in {abs(total.terms[item].factor // fact.total.terms[item].factor) for item in shared} - {0}:
                multiple, limit = fact.total.times(times), fact.limit * times
                above, below = (total - multiple).interval, (total + multiple).interval
                found = found.met(below.low - limit, above.high + limit)
        return found

    def assume_at_most(self, total: Sum, limit: int) -> None:
        """From here on, the sum is at most this."""
        limit -= total.constant
        for name, term in total.terms.items():
            if name in self.intervals:
                rest = limit - (Sum(total.terms) - Sum({name: term})).interval.low
                bound = rest // term.factor if term.factor > 0 else -(rest // -term.factor)
                known = self.intervals[name]
                low, high = (known.low, bound) if term.factor > 0 else (bound, known.high)
                self.intervals[name] = known.met(low, high)
        several = len(total.terms) > 1 or any(term.part for term in total.terms.values())
        if several and len(self.facts) < MAX_FACTS:
            self.facts = (*self.facts, Fact(Sum(total.terms), limit))
        for name, term in total.terms.items():
            if term.part is not None:
                self._assume_of_quotient(total - Sum({name: term}, total.constant), term, limit)
                return

    def _assume_of_quotient(self, rest: Sum, term: Term, limit: int) -> None:
        """The rest and multiples of a quotient are at most this: so are the rest and multiples of what was divided.

        A number divided by d and rounded down is q where d * q is at most the number, and at least it less d - 1.
        """
        assert term.part is not None
        whole, divisor = term.part
        slack = term.factor * (divisor - 1) if term.factor > 0 else 0
        self.assume_at_most(rest.times(divisor) + whole.times(term.factor), limit * divisor + slack)

    @staticmethod
    def joined(left: State, right: State) -> State:
        """Return what is known where two ways meet."""
        if left.ended or right.ended:
            return (right if left.ended else left).copy()
        both = left.intervals.keys() & right.intervals.keys()
        facts = tuple(fact for fact in left.facts if fact in right.facts)
        return State({name: left.intervals[name] | right.intervals[name] for name in both}, facts)
