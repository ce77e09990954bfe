"""Forbids what Landlock does not: new sockets, and changing how the kernel schedules other processes.

Landlock stops TCP in newer kernels, but neither UDP nor a service's socket file. Whoever may set the cores, the
priority or the limits of the user's processes slows the reference, and every program of the user with it.

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

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""The kernel's name of each architecture."""
_SOCKET = {"x86_64": 41, "aarch64": 198}
_SCHEDULING = {
    "sched_setaffinity": ({"x86_64": 203, "aarch64": 122}, 0),
    "sched_setscheduler": ({"x86_64": 144, "aarch64": 119}, 0),
    "sched_setparam": ({"x86_64": 142, "aarch64": 118}, 0),
    "sched_setattr": ({"x86_64": 314, "aarch64": 274}, 0),
    "prlimit64": ({"x86_64": 302, "aarch64": 261}, 0),
    "setpriority": ({"x86_64": 141, "aarch64": 140}, 1),
    "ioprio_set": ({"x86_64": 251, "aarch64": 30}, 1),
}
"""The number of each call, and which argument names the process that it is for; 0 is the calling one."""
_IO_URING_SETUP = 425
"""This ring makes calls that no filter sees."""
_OTHER_NUMBERS = 0x40000000
"""x86_64 has a second set of numbers for the same calls, from here on."""
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _ARGUMENT_BYTES = 0, 4, 16, 8
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_PR_SET_SECCOMP, _FILTER = 22, 2


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def restrict_calls(local_sockets: bool) -> None:
    """Stop this process and all that it starts, for good, from opening sockets and from scheduling others.

    Local sockets (AF_UNIX) may be allowed. The process must have set no_new_privs before. Raises `DeviceError` when the
    kernel refuses.
    """
    if platform.machine() not in _ARCHITECTURES:
        return
    code = b"".join(struct.pack("HBBI", *step) for step in _steps(platform.machine(), local_sockets))
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0):
        raise DeviceError(f"the kernel refuses a filter of system calls ({errno.errorcode.get(ctypes.get_errno())})")


def _steps(machine: str, local_sockets: bool) -> list[tuple[int, int, int, int]]:
    """Return operation, steps to skip when true and when false, and operand."""
    ends = {"allow": _ALLOW, "refuse": _FAIL | errno.EPERM, "unknown": _FAIL | errno.ENOSYS}
    steps: list[tuple[int, str | int, str | int, int]] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 0, "refuse", _ARCHITECTURES[machine]),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, "refuse", 0, _OTHER_NUMBERS),
        (_EQUAL, "unknown", 0, _IO_URING_SETUP),
        (_EQUAL, 0, 2, _SOCKET[machine]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_EQUAL, "allow" if local_sockets else "refuse", "refuse", socket.AF_UNIX),
    ]
    for numbers, argument in _SCHEDULING.values():
        steps += [
            (_EQUAL, 0, 2, numbers[machine]),
            (_LOAD, 0, 0, _FIRST_ARGUMENT + _ARGUMENT_BYTES * argument),
            (_EQUAL, "allow", "refuse", 0),
        ]
    places = {name: len(steps) + place for place, name in enumerate(ends)}
    resolved = [
        (operation, *(places[to] - at - 1 if isinstance(to, str) else to for to in (true, false)), operand)
        for at, (operation, true, false, operand) in enumerate(steps)
    ]
    return [*resolved, *((_RETURN, 0, 0, end) for end in ends.values())]  # type: ignore[list-item]
