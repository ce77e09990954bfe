"""Forbids new sockets: Landlock stops TCP in newer kernels, but neither UDP nor a service's socket file.

A filter as in https://docs.kernel.org/userspace-api/seccomp_filter.html, in the machine code of Berkeley packet
filters. `socketpair` stays allowed: it reaches no other process.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import socket
import struct

from ...core import DeviceError

_ARCHITECTURES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""The kernel's name of each architecture, and its number of the call `socket`."""
_IO_URING_SETUP = 425
"""This ring makes calls that no filter sees."""
_OTHER_NUMBERS = 0x40000000
"""x86_64 has a second set of numbers for the same calls, from here on."""
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_PR_SET_SECCOMP, _FILTER = 22, 2


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def forbid_sockets(local: bool) -> None:
    """Stop this process and all that it starts from opening sockets, for good; `local` ones (AF_UNIX) may be allowed.

    The process must have set no_new_privs before. Raises `DeviceError` when the kernel refuses.
    """
    if platform.machine() not in _ARCHITECTURES:
        return
    code = b"".join(struct.pack("HBBI", *step) for step in _steps(*_ARCHITECTURES[platform.machine()], local))
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0):
        raise DeviceError(f"the kernel refuses a filter of system calls ({errno.errorcode.get(ctypes.get_errno())})")


def _steps(architecture: int, socket_call: int, local: bool) -> list[tuple[int, int, int, int]]:
    """Return operation, steps to skip when true and when false, and operand."""
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
