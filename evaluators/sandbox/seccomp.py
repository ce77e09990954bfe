"""No new sockets: Landlock stops TCP, in newer kernels, but neither UDP nor a service's socket in the file system.

A filter as in https://docs.kernel.org/userspace-api/seccomp_filter.html, in the machine code of Berkeley packet
filters. `socketpair` stays, which reaches nobody else.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import socket
import struct

from ...core import DeviceError

_ARCHITECTURES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""The kernel's name of each, and its number of the call `socket`."""
_IO_URING_SETUP = 425
"""Through such a ring calls are made that no filter sees."""
_OTHER_NUMBERS = 0x40000000
"""From here on x86_64 has a second set of numbers for the same calls."""
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_PR_SET_SECCOMP, _FILTER = 22, 2


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def forbid_sockets(local: bool) -> None:
    """From now on this process and all that it starts open no sockets, but for `local` ones (AF_UNIX) if so said.

    The process must have given up new privileges before. Raises `DeviceError` when the kernel refuses.
    """
    if platform.machine() not in _ARCHITECTURES:
        return
    code = b"".join(struct.pack("HBBI", *step) for step in _steps(*_ARCHITECTURES[platform.machine()], local))
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0):
        raise DeviceError(f"the kernel refuses a filter of system calls ({errno.errorcode.get(ctypes.get_errno())})")


def _steps(architecture: int, socket_call: int, local: bool) -> list[tuple[int, int, int, int]]:
    """Operation, how many steps to leap when true and when false, operand."""
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 0, 7, architecture),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 5, 0, _OTHER_NUMBERS),
        (_EQUAL, 5, 0, _IO_URING_SETUP),
        (_EQUAL, 0, 2, socket_call),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_EQUAL, 0 if local else 1, 1, socket.AF_UNIX),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _FAIL | errno.EPERM),
        (_RETURN, 0, 0, _FAIL | errno.ENOSYS),
    ]
