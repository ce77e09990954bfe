"""Reads a file that untrusted code wrote: it owns the folder, so the path may lead anywhere."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_untrusted_file(path: Path, size: int, offset: int = 0) -> bytearray:
    """Return `size` bytes of a plain file, copied: mapping a file that is then truncated would kill the reader.

    Raises `OSError` for a link, a pipe, a device, and for a file that is shorter.
    """
    # Opening a pipe without a writer would block.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a plain file", str(path))
        # First: the size may be what the same code says, and more than the memory of this process.
        if offset + size > found.st_size:
            raise OSError(errno.ENODATA, f"{offset + size - found.st_size} bytes are missing", str(path))
        file.seek(offset)
        data = bytearray(size)
        view, read = memoryview(data), 0
        while read < size:
            count = file.readinto(view[read:])
            if not count:
                raise OSError(errno.ENODATA, f"{size - read} bytes are missing", str(path))
            read += count
    return data
