"""The exception for a rule that does not apply to a kernel, and short ways to raise and catch it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")


class NotApplicableError(Exception):
    """A rule does not apply to a kernel. The message is the reason in a few words: 'no loop over a row'.

    Rules and analyses raise this alone. Any other exception out of a rule is a bug.
    """


class OtherLanguageError(NotApplicableError):
    """The kernel is written in another language or for another device: the reason needs no mention."""


def require(condition: object, reason: str) -> None:
    """Raise NotApplicableError with this reason unless the condition holds."""
    if not condition:
        raise NotApplicableError(reason)


def need(value: T | None, reason: str) -> T:
    """Return the value. Raises NotApplicableError with this reason if it is None."""
    if value is None:
        raise NotApplicableError(reason)
    return value


def need_a(kind: type[T], value: object, reason: str) -> T:
    """Return a value of a kind. Raises NotApplicableError with this reason for any other."""
    if not isinstance(value, kind):
        raise NotApplicableError(reason)
    return value


def fitting(items: Iterable[S], read: Callable[[S], T], none: str, most: int | None = None) -> list[T]:
    """Return what is read of the items that can be read, of the first ones if there is a number that is enough.

    Raises NotApplicableError where none can be read: with the reasons, or `none` without items.
    """
    found, reasons = list[T](), list[str]()
    for item in items:
        if len(found) == most:
            break
        try:
            found.append(read(item))
        except NotApplicableError as reason:
            reasons.append(str(reason))
    require(found, "; ".join(dict.fromkeys(reasons)) or none)
    return found
