"""Options that are a range of one size, `tokens=1..8192`."""

from __future__ import annotations

import re

from ...core import OptionError
from ...core.dynamic_size import FreeSize

_RANGE = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(\d+)\s*\.\.\s*(\d+)\s*")


def free_size(text: str, option: str) -> FreeSize:
    """Return the range that a text is. Raises `OptionError`, which names the option, for another text."""
    match = _RANGE.fullmatch(text)
    low, high = (int(match[2]), int(match[3])) if match else (0, 0)
    if match is None or not 1 <= low <= high:
        raise OptionError(f"`{option}` {text!r} is not a range", "write tokens=1..8192")
    return FreeSize(match[1], low, high)
