"""Landlock: a process gives up rights on files, TCP ports and other processes, for itself and all that it starts.

The system calls are documented in https://docs.kernel.org/userspace-api/landlock.html; numbers are the same on all
architectures. An older kernel restricts less: `abi` returns what it supports.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import stat
import struct
from collections.abc import Iterable
from pathlib import Path

from ...core import DeviceError

CONFINES_SIGNALS = 6
"""The first version that stops a process from signalling others."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_UP_TO_VERSION_1 = (1 << 13) - 1
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_MAKE_DEVICES = 1 << 6 | 1 << 11
_TCP = 1 << 0 | 1 << 1
_SIGNALS_AND_ABSTRACT_SOCKETS = 1 << 0 | 1 << 1


def abi() -> int:
    """Return the kernel's Landlock version; 0 for none."""
    version = _libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    return max(0, int(version))


def restrict(read: Iterable[str | Path], write: Iterable[str | Path], devices: Iterable[str | Path]) -> list[int]:
    """Restrict this process for good: it reads below `read` and `write`, and writes below `write` and to `devices`.

    The process must have one thread only, and have given up its privileges (`privileges.give_up`). Paths that do not
    exist are skipped. Returns file descriptors to keep open: without them the kernel may forget the rules for
    /proc/self. Raises `DeviceError` when the kernel refuses.
    """
    version = abi()
    rights = _UP_TO_VERSION_1 | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    rights |= _IOCTL_DEV if version >= 5 else 0
    attributes = [rights, _TCP if version >= 4 else 0, _SIGNALS_AND_ABSTRACT_SOCKETS if version >= 6 else 0]
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = _call(_CREATE_RULESET, struct.pack("QQQ", *attributes), ctypes.c_size_t(size), ctypes.c_uint32(0))
    kept = []
    for paths, allowed in (
        (read, _READ),
        (write, rights & ~_MAKE_DEVICES & ~_IOCTL_DEV),
        (devices, _READ | _WRITE_FILE | _IOCTL_DEV),
    ):
        for path in paths:
            descriptor = _allow(ruleset, path, allowed & rights)
            if descriptor is not None:
                kept.append(descriptor)
    _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)
    return kept


def _allow(ruleset: int, path: str | Path, allowed: int) -> int | None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # removed since it was listed, or not accessible
        return None
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        allowed &= _ON_FILES
    rule = struct.pack("=Qi", allowed, descriptor)
    _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint32(0))
    if str(path).startswith("/proc/self"):
        return descriptor
    os.close(descriptor)
    return None


def _call(number: int, *arguments: object) -> int:
    result = int(_libc().syscall(number, *arguments))
    if result < 0:
        raise _refused()
    return result


def _refused() -> DeviceError:
    reason = errno.errorcode.get(ctypes.get_errno(), "no reason given")
    return DeviceError(f"the kernel refuses Landlock ({reason}); try `sandbox` bwrap")


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
