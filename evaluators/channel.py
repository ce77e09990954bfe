"""Messages between processes: JSON only, so that reading one never runs code."""

from __future__ import annotations

import json
import socket
import time
from multiprocessing.connection import Connection
from typing import Any

Message = dict[str, Any]
MAX_BYTES = 64 << 20


class ChannelClosed(Exception):
    """The other process is gone, or sent something that is no message."""


class ChannelTimeout(Exception):
    """No message came in time."""


class Channel:
    """One end of a pair of connected sockets."""

    def __init__(self, fd: int) -> None:
        self._connection = Connection(fd)

    @classmethod
    def pair(cls) -> tuple[Channel, socket.socket]:
        """This end, and the socket for the other process."""
        ours, theirs = socket.socketpair()
        return cls(ours.detach()), theirs

    def send(self, message: Message) -> None:
        try:
            self._connection.send_bytes(json.dumps(message).encode())
        except OSError:
            raise ChannelClosed from None

    def receive(self, seconds: float | None = None) -> Message:
        """The next message; `ChannelTimeout` when none came within `seconds`."""
        try:
            if seconds is not None and not self._connection.poll(max(0.0, seconds)):
                raise ChannelTimeout
            message = json.loads(self._connection.recv_bytes(MAX_BYTES))
        except (EOFError, OSError, ValueError):
            raise ChannelClosed from None
        if not isinstance(message, dict):
            raise ChannelClosed
        return message

    def close(self) -> None:
        self._connection.close()


class Deadline:
    """A point in time that several waits share."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return max(0.0, self._end - time.monotonic())
