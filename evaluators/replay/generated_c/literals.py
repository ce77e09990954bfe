"""Numbers as they stand in generated C."""

from __future__ import annotations

import re

from ..values import UnplannableCallError
from .types import DOUBLE, FLOAT, INT32, INT64, UINT32, UINT64, Interval
from .values import Sum, Value

_WHOLE = re.compile(r"(0[xX][\da-fA-F]+|0[0-7]*|[1-9]\d*)([uU]?)([lL]{0,2})", re.ASCII)
_FLOAT = re.compile(r"((?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)([fF]?)", re.ASCII)
_MOST_DIGITS = 60


def literal(kind: str, text: str) -> Value:
    """Return a number, of the type that C gives it. Raises `UnplannableCallError` for anything else."""
    found = _FLOAT.fullmatch(text)
    if found is not None and len(text) <= _MOST_DIGITS:
        return Value(f"{found[1]}f" if found[2] else found[1], FLOAT if found[2] else DOUBLE)
    found = _WHOLE.fullmatch(text)
    if found is None or len(text) > _MOST_DIGITS:
        raise UnplannableCallError(f"the {kind} {text[:_MOST_DIGITS]}")
    digits, unsigned, long = found.groups()
    octal = len(digits) > 1 and digits.isdecimal() and digits[0] == "0"
    number = int(digits, 8 if octal else 0)
    short = () if long else (UINT32,) if unsigned else (INT32, UINT32) if digits[:1] == "0" else (INT32,)
    wide = (UINT64,) if unsigned else (INT64, UINT64) if digits[:1] == "0" else (INT64,)
    for item in (*short, *wide):
        if number <= item.interval.high:
            suffix = ("u" if item in (UINT32, UINT64) else "") + ("l" if item in (INT64, UINT64) else "")
            return Value(f"{number}{suffix}", item, Sum(constant=number), Interval(number, number))
    raise UnplannableCallError(f"the number {text}")
