"""Conversions of values, each defined for every value: C leaves open what a float beyond an integer's range becomes."""

from __future__ import annotations

from ..values import UnplannableCallError
from .types import BOOL, CType
from .values import Value


def converted(value: Value, kind: CType, explicit: bool = False) -> Value:
    """Return a value in another type. Raises `UnplannableCallError` where C has no such conversion.

    Only an explicit conversion makes a vector of a number, which is then all of its elements.
    """
    if value.type is kind:
        return value
    if kind.element is not None and explicit and value.type.family != "vector":
        return Value(f"(({kind.name})({converted(value, kind.element).text}))", kind)
    if "vector" in (kind.family, value.type.family):
        raise UnplannableCallError(f"a conversion of {value.type.name} to {kind.name}")
    if value.type.family == "float":
        return _from_float(value, kind)
    if kind.family == "float":
        between = "(float)" if kind.name == "half" else ""
        return Value(f"(({kind.name}){between}({value.text}))", kind)
    text = f"(({kind.name})({value.text}))"
    if value.total is None or not value.interval.within(kind.interval):
        return Value(text, kind)
    return Value(text, kind, value.total, value.interval)


def _from_float(value: Value, kind: CType) -> Value:
    text = f"(float)({value.text})" if value.type.name == "half" else value.text
    if kind.family == "float":
        return Value(f"(({kind.name})({text}))", kind)
    if kind is BOOL:
        return Value(f"(({text}) != 0)", kind)
    through = kind.name if kind.size == 8 else "int64_t" if kind.name == "uint32_t" else "int32_t"  # as x86 does it
    whole = f"{through.removesuffix('_t')}_of({text})"
    return Value(f"held_{whole}" if through == kind.name else f"(({kind.name})held_{whole})", kind)
