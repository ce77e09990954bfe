"""Why a rule does not fit a kernel: the one exception that says so, and two short ways to raise it."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class NotApplicable(Exception):
    """A rule does not fit a kernel. The message is the reason, in a few words: 'no loop over a row'.

    Rules and analyses raise this alone. Any other exception out of a rule is a bug.
    """


class OtherLanguage(NotApplicable):
    """The kernel is written in another language or for another device: the reason needs no mention."""


def require(condition: object, reason: str) -> None:
    """Raise NotApplicable with this reason unless the condition holds."""
    if not condition:
        raise NotApplicable(reason)


def need(value: T | None, reason: str) -> T:
    """Return a value that is there. Raises NotApplicable with this reason where it is None."""
    if value is None:
        raise NotApplicable(reason)
    return value
