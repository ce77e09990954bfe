"""Atomic writes of files."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path

import platformdirs

from .errors import ResultsError

MOST_BYTES = 1 << 29
"""No file that a user names has more."""


def cache_folder() -> Path:
    """Return the folder of measurements that are kept between runs. KERNELWRIGHT_CACHE overrides it."""
    return Path(os.environ.get("KERNELWRIGHT_CACHE") or platformdirs.user_cache_dir("kernelwright"))


def own_folder() -> Path:
    """Return the folder of the user's data, which no run can recreate. KERNELWRIGHT_CACHE overrides it too."""
    return Path(os.environ.get("KERNELWRIGHT_CACHE") or platformdirs.user_data_dir("kernelwright"))


def config_folder() -> Path:
    """Return the folder of the user's configuration and trusted projects."""
    return Path(platformdirs.user_config_dir("kernelwright"))


def state_folder() -> Path:
    """Return the folder of the key that signs this user's journals."""
    return Path(platformdirs.user_state_dir("kernelwright"))


def archive_path() -> Path:
    """Return the archive file. KERNELWRIGHT_ARCHIVE overrides it."""
    return Path(os.environ.get("KERNELWRIGHT_ARCHIVE") or own_folder() / "archive.jsonl")


def own_examples() -> Path:
    """Return the folder of the user's own worked examples."""
    return own_folder() / "corpus"


def read_bytes(path: Path) -> bytes:
    """Return the contents of a file that a user named. Raises `OSError`, also where there is no end to it.

    A device such as /dev/zero would take all memory; a pipe, as of a shell's `<(...)`, is read to its end.
    """
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES >> 20} MB", str(path))
    return data


def read_text(path: Path) -> str:
    """Do the same for text in UTF-8; raises `UnicodeDecodeError` for other text."""
    return read_bytes(path).decode()


def write_whole(path: Path, data: bytes | str, advice: str = "choose another path") -> Path:
    """Write a file atomically. Raises `ResultsError` with this advice if that fails."""
    content = data.encode() if isinstance(data, str) else data
    part = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", suffix=".part", delete=False) as file:
            part = Path(file.name)
            file.write(content)
        part.chmod(0o666 & ~_umask())
        os.replace(part, path)
    except OSError as error:
        if part is not None:
            part.unlink(missing_ok=True)
        raise ResultsError(f"cannot write {path}: {error.strerror}; {advice}") from None
    return path


def _umask() -> int:
    """Return what new files of this process must not allow; asking the system would change it for other threads."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o022
