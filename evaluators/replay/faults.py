"""Says why a process ends that touched a wall, or whose generated C left an array: a signal alone does not say where.

The handler is Python, called by the signal in the thread that runs the kernel. That thread is in native code that was
called through ctypes, without the interpreter's lock, so it can take the lock and answer the request.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...core import Rejection
from ..workers.channel import Channel
from .walls import RULE

_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_SIGINFO = 4
_CODE_AT, _ADDRESS_AT = 8, 16
"""Offsets in `siginfo_t` on 64-bit systems: the cause, and the address of the access or of the instruction."""
_MASK_BYTES = 128
_CHECKED = (
    "an index that its launches read from a tensor is outside of the array, or they divide by zero; "
    "mask what lies outside"
)


class _Action(ctypes.Structure):
    """`struct sigaction` of glibc and musl on Linux."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_char * _MASK_BYTES),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class _Symbol(ctypes.Structure):
    """`Dl_info`: what `dladdr` finds of an address."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


class FaultAnswers:
    """Answers the request in progress with the rule that its fault broke.

    `touched` finds the rule of an address; code in files below `folder` is that of kernels, where an instruction that
    does not exist is the end of a check.
    """

    def __init__(self, channel: Channel, touched: Callable[[int], Rejection | None], folder: Path) -> None:
        self._channel = channel
        self._touched = touched
        self._folder = f"{folder}/"
        self._nonce = ""
        self._handlers: list[FaultHandler] = []

    def install(self) -> None:
        """From now on answer where a thread touches memory that it may not, or a check of generated C ends it."""
        for number, tell in ((signal.SIGSEGV, self._tell), (signal.SIGILL, self._tell_trap)):
            self._handlers.append(FaultHandler(number, tell))

    def begun(self, nonce: str) -> None:
        """Take the nonce of the request that begins."""
        self._nonce = nonce

    def _tell(self, address: int) -> bool:
        return self._answer(self._touched(address))

    def _tell_trap(self, address: int) -> bool:
        if not (file_of(address) or "").startswith(self._folder):
            return False
        return self._answer(Rejection(rule=RULE, where="a check of its generated C", why=_CHECKED))

    def _answer(self, rejection: Rejection | None) -> bool:
        if rejection is not None:
            self._channel.send({"ok": True, "violations": [rejection.model_dump()], "nonce": self._nonce})
        return rejection is not None


class FaultHandler:
    """Calls `tell` with the address when a thread gets the signal; what `tell` returns is whether the process has
    nothing more to do. Else the signal ends it, as without a handler.
    """

    def __init__(self, number: signal.Signals, tell: Callable[[int], bool]) -> None:
        self._tell = tell
        self._kept = _Handler(self._handle)  # as long as the process may call it
        action = _Action(handler=ctypes.cast(self._kept, ctypes.c_void_p), flags=_SIGINFO)
        _LIBC.sigaction(int(number), ctypes.byref(action), None)

    def _handle(self, number: int, info: int, context: Any) -> None:
        if ctypes.c_int.from_address(info + _CODE_AT).value > 0:  # else another process sent it
            if self._tell(ctypes.c_uint64.from_address(info + _ADDRESS_AT).value):
                os._exit(1)
            _LIBC.sigaction(
                number, ctypes.byref(_Action()), None
            )  # what was tried is tried again, and ends the process
            return
        _LIBC.sigaction(number, ctypes.byref(_Action()), None)
        os.kill(os.getpid(), number)


def file_of(address: int) -> str | None:
    """Return the file of the code at an address, if it is from one."""
    found = _Symbol()
    if not _LIBC.dladdr(ctypes.c_void_p(address), ctypes.byref(found)) or found.file is None:
        return None
    return os.fsdecode(found.file)


_LIBC = ctypes.CDLL(None)
