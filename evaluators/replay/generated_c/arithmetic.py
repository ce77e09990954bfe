"""Arithmetic of generated C, written so that it is defined for every value, and what its results can be."""

from __future__ import annotations

from typing import Protocol

from ..values import UnplannableCallError
from .conversions import converted
from .types import CType, Interval, common, promoted, quotients, remainders
from .values import Sum, Value, term


class Knowing(Protocol):
    """Knows what holds where an expression stands."""

    def known(self, text: str, kind: CType, total: Sum, interval: Interval) -> Value:
        """Return an integer that proofs may rest on, given the sum that it is."""
        ...


def binary(knowing: Knowing, operator: str, left: Value, right: Value) -> Value:
    """Return the result of an operator on two values. Raises `UnplannableCallError` where C has none."""
    if "vector" in (left.type.family, right.type.family):
        return _of_vectors(operator, left, right)
    if operator in ("<<", ">>"):
        return _shifted(knowing, operator, left, right)
    kind = common(left.type, right.type)
    if not kind.whole:
        if operator not in ("+", "-", "*", "/"):
            raise UnplannableCallError(f"'{operator}' of {kind.name}")
        return Value(f"({left.text} {operator} {right.text})", kind)
    left, right = converted(left, kind), converted(right, kind)
    if operator in ("/", "%"):
        return _divided(knowing, operator, left, right)
    if operator in ("&", "|", "^"):
        return _of_bits(knowing, operator, left, right)
    if operator not in ("+", "-", "*"):
        raise UnplannableCallError(f"'{operator}'")
    return _added_or_multiplied(knowing, operator, left, right)


def _of_vectors(operator: str, left: Value, right: Value) -> Value:
    """TileLang's header adds the elements of vectors, as they are: of integers that could overflow."""
    element = left.type.element
    if left.type is not right.type or element is None or element.whole or operator not in ("+", "-", "*", "/"):
        raise UnplannableCallError(f"'{operator}' of {left.type.name} and {right.type.name}")
    return Value(f"({left.text} {operator} {right.text})", left.type)


def result(
    knowing: Knowing, text: str, kind: CType, interval: Interval, *of: Value, part: tuple[Sum, int] | None = None
) -> Value:
    """Return an integer that is a term of its own, where proofs may rest on all that it was made of."""
    if not kind.whole or any(item.total is None for item in of):
        return Value(text, kind)
    interval = interval.met(kind.interval.low, kind.interval.high)
    return knowing.known(text, kind, term(text, interval, part), interval)


def _added_or_multiplied(knowing: Knowing, operator: str, left: Value, right: Value) -> Value:
    kind = left.type
    combined = {"+": Interval.__add__, "-": Interval.__sub__, "*": Interval.__mul__}[operator]
    interval = combined(left.interval, right.interval)
    if left.total is None or right.total is None or not interval.within(kind.interval):
        wrapped = f"(({kind.unsigned})({left.text}) {operator} ({kind.unsigned})({right.text}))"
        text = wrapped if kind.name == kind.unsigned else f"(({kind.name}){wrapped})"
        return result(knowing, text, kind, kind.interval, left, right)
    text = f"({left.text} {operator} {right.text})"
    total = _total(operator, left.total, right.total)
    if total is None:
        return result(knowing, text, kind, interval, left, right)
    return knowing.known(text, kind, total, interval)


def _total(operator: str, left: Sum, right: Sum) -> Sum | None:
    """Return the sum that the result is; None for a product of variables."""
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    for scaled, factor in ((left, right), (right, left)):
        if not scaled.terms:
            return factor.times(scaled.constant)
    return None


def _divided(knowing: Knowing, operator: str, left: Value, right: Value) -> Value:
    kind = left.type
    of = quotients if operator == "/" else remainders
    nonzero = right.total is not None and not right.interval.low <= 0 <= right.interval.high
    if nonzero and (right.interval.low > 0 or left.interval.low > kind.interval.low):
        text = f"({left.text} {operator} {right.text})"
    else:
        text = f"held_{'quotient' if operator == '/' else 'remainder'}<{kind.name}>({left.text}, {right.text})"
    if right.interval == Interval(0, 0):
        return Value(text, kind)
    interval = of(left.interval, right.interval)
    part = _part(operator, left, right.interval)
    return result(
        knowing, text, kind, interval if interval.within(kind.interval) else kind.interval, left, right, part=part
    )


def _part(operator: str, left: Value, divisor: Interval) -> tuple[Sum, int] | None:
    """Return what was divided, and by what, where the quotient of C is rounded down."""
    exact = operator == "/" and 0 < divisor.low == divisor.high and left.interval.low >= 0
    return (left.total, divisor.low) if exact and left.total is not None else None


def _of_bits(knowing: Knowing, operator: str, left: Value, right: Value) -> Value:
    kind, interval = left.type, left.type.interval
    without_sign = [item.interval.high for item in (left, right) if item.interval.low >= 0]
    if operator == "&" and without_sign:
        interval = Interval(0, min(without_sign))
    elif len(without_sign) == 2:
        interval = Interval(0, (1 << max(without_sign).bit_length()) - 1)
    return result(knowing, f"({left.text} {operator} {right.text})", kind, interval, left, right)


def _shifted(knowing: Knowing, operator: str, left: Value, right: Value) -> Value:
    if not (left.type.whole and right.type.whole):
        raise UnplannableCallError(f"'{operator}' of {left.type.name} and {right.type.name}")
    kind = promoted(left.type)
    left, right = converted(left, kind), converted(right, promoted(right.type))
    bits = 8 * kind.size
    places = right.interval
    inside = right.total is not None and places.within(Interval(0, bits - 1))
    by = right.text if inside else f"({right.text} & {bits - 1})"
    if not inside:
        places = Interval(0, bits - 1)
    if operator == ">>":
        ends = [item >> two for item in (left.interval.low, left.interval.high) for two in (places.low, places.high)]
        part = (left.total, 1 << places.low) if left.total is not None and places.low == places.high else None
        return result(knowing, f"({left.text} >> {by})", kind, Interval(min(ends), max(ends)), left, right, part=part)
    interval = left.interval * Interval(1 << places.low, 1 << places.high)
    if not interval.within(kind.interval):
        interval = kind.interval
    text = f"(({kind.unsigned})({left.text}) << {by})"
    text = text if kind.name == kind.unsigned else f"(({kind.name}){text})"
    if inside and places.low == places.high and left.total is not None and interval is not kind.interval:
        return knowing.known(text, kind, left.total.times(1 << places.low), interval)
    return result(knowing, text, kind, interval, left, right)
