"""Names of problems: `level2/2_10`, `2_10`, or a KernelBench file name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from pathlib import Path

_SHORT = re.compile(r"(?:level(?P<folder>\d+)/)?(?P<level>\d+)_(?P<number>\d+)(?![0-9A-Za-z])(?:_\w.*)?")
_KERNELBENCH = re.compile(r"(?P<number>\d+)_(?=\d*[A-Za-z])\S+")  # also 10_3D_tensor_matrix_multiplication

NEAREST = 3
"""Names that a message suggests at most."""


def problem_id(level: int | str, number: int | str) -> str:
    """Return the id, such as `level2/2_10`."""
    return f"level{level}/{level}_{number}"


def parse_id(reference: str) -> str | None:
    """Return the id in `level2/2_10.py`, `2_10` or `2_10_optimized_1.2x.py`, or None."""
    parts = Path(reference.removesuffix(".py")).parts[-2:]
    folder = parts[-2] if len(parts) == 2 and re.fullmatch(r"level\d+", parts[-2]) else None
    match = _SHORT.fullmatch(parts[-1]) if parts else None
    if match is None or (folder and folder != f"level{match['level']}"):
        return None
    return problem_id(match["level"], match["number"])


def kernelbench_number(stem: str) -> str | None:
    """Return the number that a KernelBench file name begins with, or None for another name."""
    match = _KERNELBENCH.fullmatch(stem)
    return match["number"] if match else None


def is_file(path: Path) -> bool:
    """Return whether the path is an accessible file; False for a name that is too long, or in a closed folder."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Return whether the path is an accessible folder; False in the same cases as `is_file`."""
    try:
        return path.is_dir()
    except OSError:
        return False


def nearest(reference: str, known: Iterable[str]) -> str:
    """Return '; the nearest are a, b' for an error message, or '' when nothing is near."""
    names = sorted(set(known))
    stem = Path(reference).name.removesuffix(".py").lower()
    keys = {name.rsplit("/", 1)[-1].lower(): name for name in names}
    close = [keys[key] for key in difflib.get_close_matches(stem, keys, n=NEAREST, cutoff=0.5)]
    close += [name for key, name in keys.items() if len(stem) > 2 and stem in key and name not in close]
    return f"; the nearest are {', '.join(close[:NEAREST])}" if close else ""
