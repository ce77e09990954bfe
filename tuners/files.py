"""Reads and writes whole files, plain or gzipped, with errors that give the fix."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

from ..core import OptionError
from ..core.files import MOST_BYTES, read_bytes, write_whole

_GZIP = b"\x1f\x8b"


def read_recorded(path: Path) -> bytes:
    """Return a recording's contents, unpacked if it is gzipped; raises `OptionError` when it cannot be read."""
    try:
        data = read_bytes(path)
    except OSError as error:
        raise OptionError(f"cannot read {path}: {error.strerror}; give the path of a recording") from None
    if not data.startswith(_GZIP):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            whole = packed.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error):
        raise OptionError(f"{path} is a damaged gzip file; copy it again") from None
    if len(whole) > MOST_BYTES:
        raise OptionError(f"{path} unpacks to more than {MOST_BYTES >> 20} MB, which no recording has")
    return whole


def write_text(path: Path, text: str) -> None:
    """Write a file, compressed if its name ends in .gz; raises `ResultsError` when it cannot be written."""
    # A fixed time stamp: the same results give the same file.
    write_whole(path, gzip.compress(text.encode(), mtime=0) if path.suffix == ".gz" else text)
