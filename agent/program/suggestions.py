"""The suggestion that a rewrite is given: it must stand by itself, since the writer sees no other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .retrieval import technique_of

_ORDINALS = ("first", "second", "third", "fourth")
_MANY = {"two": 2, "three": 3}
_THING = r"(?:suggestion|idea|change|step)s?"
_MORE = r"(?:\s*(?:,|and|or|to)\s*#?[1-4]\b)"
# 'suggestion 2', 'ideas 1 and 2', 'on top of 1 and 2'
_NUMBERED = re.compile(rf"\b{_THING}\s+#?[1-4]\b{_MORE}*|\b(?:after|on top of)\s+#?[1-4]\b{_MORE}+", re.IGNORECASE)
# 'the first suggestion', 'the first two ideas', 'after the first two.'
_NAMED = re.compile(
    rf"\b({'|'.join(_ORDINALS)})\s+(?:(two|three)\s+)?{_THING}\b|\bafter the (first) (two|three)(?=\s*[.,;)]|$)",
    re.IGNORECASE,
)
# 'the loop above', 'the rate assumed above', but not 'above 3 KiB' and 'below the floor'.
_EARLIER = re.compile(
    rf"\b(?:above|below)(?=\s*(?:[,.;:()]|$))|\b(?:previous|preceding|other) {_THING}\b|\bthe (?:former|latter)\b",
    re.IGNORECASE | re.MULTILINE,
)


def suggestion_text(suggestions: Sequence[str], variant: int) -> str:
    """Return the suggestion of a lane, followed by the suggestions that it refers to.

    Where there are fewer suggestions than lanes, a further lane is asked for a change of its own.
    """
    if not suggestions:
        return "what the evidence suggests"
    if variant >= len(suggestions):
        others = "; ".join(technique_of(text) for text in suggestions)
        return f"a change of your own that the evidence suggests, other than those tried beside it: {others}"
    text = suggestions[variant]
    meant = [f"- {suggestions[index]}" for index in leans_on(text, variant, len(suggestions))]
    return "\n".join([text, *(["what it refers to, for your information:", *meant] if meant else [])])


def leans_on(text: str, number: int, count: int) -> tuple[int, ...]:
    """Return the indices of the suggestions, of `count`, that number `number` refers to.

    Something earlier without a number, 'the loop above', counts as all before it.
    """
    found = {*_indices(text)}
    if not found and _EARLIER.search(text):
        found = {*range(number)}
    return tuple(sorted(item for item in found if item != number and item < count))


def _indices(text: str) -> Iterator[int]:
    for match in _NUMBERED.finditer(text):
        yield from (int(digit) - 1 for digit in re.findall(r"[1-4]", match[0]))
    for match in _NAMED.finditer(text):
        first = _ORDINALS.index((match[1] or match[3]).lower())
        yield from range(first, first + _MANY.get((match[2] or match[4] or "").lower(), 1))
