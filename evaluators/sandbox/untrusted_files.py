"""Reads and writes files in folders of untrusted code, which may have put links there: a path may lead anywhere."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read_untrusted_file(path: Path, size: int, offset: int = 0) -> bytearray:
    """Return `size` bytes of a plain file, copied: mapping a file that is then truncated would kill the reader.

    Raises `OSError` for a link, a pipe, a device, and for a file that is shorter.
    """
    with _plain_file(path, offset + size) as file:
        data = bytearray(size)
        _fill(memoryview(data), file, offset, path)
        return data


def read_untrusted_into(path: Path, view: memoryview, offset: int = 0) -> None:
    """Fill a view of bytes from a plain file. Raises `OSError` as `read_untrusted_file` does."""
    with _plain_file(path, offset + len(view)) as file:
        _fill(view, file, offset, path)


@contextlib.contextmanager
def _plain_file(path: Path, size: int) -> Iterator[FileIO]:
    """Open a plain file of at least this many bytes.

    The size is compared before memory is taken: it may be what the same code says, and more than this process has.
    """
    # Opening a pipe without a writer would block.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with FileIO(descriptor) as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a plain file", str(path))
        if size > found.st_size:
            raise OSError(errno.ENODATA, f"{size - found.st_size} bytes are missing", str(path))
        yield file


def _fill(view: memoryview, file: FileIO, offset: int, path: Path) -> None:
    file.seek(offset)
    read = 0
    while read < len(view):
        count = file.readinto(view[read:])
        if not count:
            raise OSError(errno.ENODATA, f"{len(view) - read} bytes are missing", str(path))
        read += count


def report_in(path: Path, most: int = 64 << 20) -> str:
    """Return the beginning of a text that untrusted code may have written; '' where there is no plain file."""
    try:
        return read_untrusted_file(path, min(path.lstat().st_size, most)).decode(errors="replace")
    except OSError:
        return ""


def add_untrusted_file(folder: Path, name: Path, content: bytes) -> None:
    """Write a new file below a folder, with the folders around it; nothing where there is something of that name.

    Raises `OSError` where one of these is a link.
    """
    at = os.open(folder, _FOLDER)
    try:
        for part in name.parent.parts:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=at)
            inner = os.open(part, _FOLDER, dir_fd=at)
            os.close(at)
            at = inner
        with contextlib.suppress(FileExistsError), open(os.open(name.name, _NEW_FILE, 0o644, dir_fd=at), "wb") as file:
            file.write(content)
    finally:
        os.close(at)
