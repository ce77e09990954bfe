"""Atomic writes of files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import platformdirs

from .errors import ResultsError


def cache_folder() -> Path:
    """Where measurements are kept between runs; KERNELWRIGHT_CACHE overrides it."""
    return Path(os.environ.get("KERNELWRIGHT_CACHE") or platformdirs.user_cache_dir("kernelwright"))


def own_folder() -> Path:
    """Where the user's own data are that no run can make again; KERNELWRIGHT_CACHE overrides it, too."""
    return Path(os.environ.get("KERNELWRIGHT_CACHE") or platformdirs.user_data_dir("kernelwright"))


def config_folder() -> Path:
    """Where the user's own configuration is, and which projects the user trusts."""
    return Path(platformdirs.user_config_dir("kernelwright"))


def state_folder() -> Path:
    """Where the key is that this user's journals are signed with."""
    return Path(platformdirs.user_state_dir("kernelwright"))


def archive_path() -> Path:
    """The file of what all runs learned; KERNELWRIGHT_ARCHIVE names another one."""
    return Path(os.environ.get("KERNELWRIGHT_ARCHIVE") or own_folder() / "archive.jsonl")


def own_examples() -> Path:
    """The folder of the user's own worked examples."""
    return own_folder() / "corpus"


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
