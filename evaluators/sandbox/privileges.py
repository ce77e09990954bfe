"""Gives up the privileges of a process: its capabilities, and getting new ones by what it executes.

A worker of root could else set the clock or the machine's name, which neither Landlock nor a user's rights on files
cover. See capabilities(7).
"""

from __future__ import annotations

import ctypes
import errno
import struct

from ...core import DeviceError

_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _CLEAR_ALL = 38, 24, 47, 4
_VERSION_3 = 0x20080522
_MOST = 64
"""Capabilities that version 3 has room for."""


def give_up() -> None:
    """Drop all capabilities of this thread and of what it starts, for good; raises `DeviceError` when that fails."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise _refused()
    for number in range(_MOST):
        # Refused for a user without capabilities, who needs no bound: nothing that is executed may bring any.
        if libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0):
            break
    libc.prctl(_PR_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    # Effective, permitted and inheritable ones, each in two words.
    if libc.capset(struct.pack("Ii", _VERSION_3, 0), struct.pack("6I", *[0] * 6)):
        raise _refused()


def _refused() -> DeviceError:
    reason = errno.errorcode.get(ctypes.get_errno(), "no reason given")
    return DeviceError(f"the kernel keeps a worker's capabilities ({reason}); try `sandbox` bwrap")
