"""A filter of system calls: for what Landlock does not stop, and for what root may do.

A filter as in https://docs.kernel.org/userspace-api/seccomp_filter.html, in the machine code of Berkeley packet
filters. It sees numbers, not memory: no address of a socket and no path.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from ...core import DeviceError
from . import system_calls as calls

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""The kernel's number of each architecture, in the order of `system_calls.Numbers`."""
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_EQUAL, _ABOVE, _ANY_BIT = 0x15, 0x25, 0x45
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _ARGUMENT_BYTES = 0, 4, 16, 8
_PR_SET_SECCOMP, _FILTER = 22, 2
_ENDS = {
    "allow": 0x7FFF0000,
    "refuse": 0x00050000 | errno.EPERM,
    "unknown": 0x00050000 | errno.ENOSYS,
    "nobody": 0x00050000 | errno.ECONNREFUSED,
    "pretend": 0x00050000,
}
"""Final actions of the filter: make the call, fail it with an error, or report success without making it."""
_KIND = 0xF
"""The bits of a socket's type without its flags."""


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


@dataclass(frozen=True)
class _Step:
    """An instruction: where a comparison goes on, as the name of an end or as steps to skip."""

    operation: int
    operand: int
    true: str | int = 0
    false: str | int = 0


def obstacle() -> str | None:
    """Return why there is no filter for this machine; None where there is one."""
    if platform.machine() in _ARCHITECTURES:
        return None
    return f"no filter of system calls is known for {platform.machine()}"


def restrict_calls(cuda: bool, streams: bool = False) -> None:
    """Stop this process and all that it starts, for good, from reaching others and from changing the machine.

    CUDA asks other processes for memory by local sockets of one type, and may map memory that no limit counts. NVIDIA's
    tools talk to a program over `streams`, local sockets of another type. The process must have set no_new_privs
    before. Raises `DeviceError` when the kernel refuses.
    """
    code = _machine_code(platform.machine(), cuda, streams)
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0):
        raise DeviceError(f"the kernel refuses a filter of system calls ({errno.errorcode.get(ctypes.get_errno())})")


def _machine_code(machine: str, cuda: bool, streams: bool) -> bytes:
    steps = _steps(machine, cuda, streams)
    places = {name: len(steps) + place for place, name in enumerate(_ENDS)}

    def skipped(at: int, to: str | int) -> int:
        return places[to] - at - 1 if isinstance(to, str) else to

    lines = [
        (step.operation, skipped(at, step.true), skipped(at, step.false), step.operand) for at, step in enumerate(steps)
    ]
    lines += [(_RETURN, 0, 0, end) for end in _ENDS.values()]
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def _steps(machine: str, cuda: bool, streams: bool) -> list[_Step]:
    column = list(_ARCHITECTURES).index(machine)

    def numbers(table: calls.Numbers) -> Iterable[int]:
        return (found for row in table.values() if (found := row[column]) is not None)

    steps = [
        _Step(_LOAD, _ARCHITECTURE),
        _Step(_EQUAL, _ARCHITECTURES[machine], 0, "refuse"),
        _Step(_LOAD, _NUMBER),
        _Step(_ABOVE, calls.NEWEST, "unknown"),  # x86_64's second set of numbers, too
    ]
    for table, end in ((calls.REFUSED, "refuse"), (calls.UNKNOWN, "unknown"), (calls.PRETENDED, "pretend")):
        steps += [_Step(_EQUAL, number, end) for number in numbers(table)]
    if not cuda:
        for table, end in ((calls.MEMFD, "unknown"), (calls.SOCKET, "refuse"), (calls.CONNECT, "nobody")):
            steps += [_Step(_EQUAL, number, end) for number in numbers(table)]
    # Services listen on sockets of other types; one for single messages reaches any address without being connected.
    for table, kinds in (
        (calls.SOCKETPAIR, (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)),
        (calls.SOCKET if cuda else {}, (*((socket.SOCK_STREAM,) if streams else ()), socket.SOCK_SEQPACKET)),
    ):
        for number in numbers(table):
            is_local = [_argument(0), _Step(_EQUAL, socket.AF_UNIX, 0, "refuse"), _argument(1), _Step(_AND, _KIND)]
            allowed = [_Step(_EQUAL, kind, "allow") for kind in kinds]
            steps += _when(number, [*is_local, *allowed, _Step(_EQUAL, 0, "refuse", "refuse")])
    for number in numbers(calls.MMAP):
        last = _Step(_EQUAL, calls.SHARED_ANONYMOUS, "refuse", "allow")
        shared = [] if cuda else [_Step(_AND, calls.SHARED_ANONYMOUS), last]
        grows_down = _Step(_ANY_BIT, calls.GROWS_DOWN, "refuse", 0 if shared else "allow")
        steps += _when(number, [_argument(3), grows_down, *shared])
    for number in numbers(calls.CLONE):
        steps += _when(number, [_argument(0), _Step(_ANY_BIT, calls.NEW_NAMESPACES, "refuse", "allow")])
    for table, requests in ((calls.IOCTL, calls.SETS_ATTRIBUTES), (calls.FCNTL, calls.SETS_WATCHES)):
        refused = [_Step(_EQUAL, request, "refuse") for request in requests[:-1]]
        for number in numbers(table):
            steps += _when(number, [_argument(1), *refused, _Step(_EQUAL, requests[-1], "refuse", "allow")])
    own = _Step(_EQUAL, 0, "allow", "refuse")
    for number in numbers(calls.OWN_ONLY):
        steps += _when(number, [_argument(0), own])
    for table, process in calls.OWN_KIND:
        for number in numbers(table):
            steps += _when(number, [_argument(0), _Step(_EQUAL, process, 0, "refuse"), _argument(1), own])
    return steps


def _argument(which: int) -> _Step:
    """Load an argument; its upper half is ignored, as by the kernel for these calls, which take integers."""
    return _Step(_LOAD, _FIRST_ARGUMENT + _ARGUMENT_BYTES * which)


def _when(number: int, steps: list[_Step]) -> list[_Step]:
    """Do these steps for one call; they end in `allow` or `refuse`."""
    return [_Step(_EQUAL, number, 0, len(steps)), *steps]
