"""Functions that kernels of structures call, by name: a file has those that it uses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

HELPERS: Mapping[str, str] = {
    f"{name}_or_nan": f"""
@triton.jit
def {name}_or_nan(first, second):
    return tl.{function}(first, second, tl.PropagateNan.ALL)
"""
    for name, function in (("larger", "maximum"), ("smaller", "minimum"))
}
"""`tl.max` and `tl.min` ignore NaN, which torch returns; reductions with these keep it, also by one instruction."""


def used_helpers(sources: Sequence[str]) -> Iterator[str]:
    """Yield the functions that kernels call."""
    for name, text in HELPERS.items():
        if any(re.search(rf"\b{name}\b", source) for source in sources):
            yield text.strip()
