"""Atomic writes of files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import platformdirs

from .errors import ResultsError


def memory_folder() -> Path:
    """Where measurements are remembered between runs; KERNELWRIGHT_CACHE overrides it."""
    return Path(os.environ.get("KERNELWRIGHT_CACHE") or platformdirs.user_cache_dir("kernelwright"))


def write_whole(path: Path, data: bytes | str, advice: str = "choose another path") -> Path:
    """Write a file atomically; raises `ResultsError` with this advice when that fails."""
    content = data.encode() if isinstance(data, str) else data
    part = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", suffix=".part", delete=False) as file:
            part = Path(file.name)
            file.write(content)
        part.chmod(0o644)
        os.replace(part, path)
    except OSError as error:
        if part is not None:
            part.unlink(missing_ok=True)
        raise ResultsError(f"cannot write {path}: {error.strerror}; {advice}") from None
    return path
