"""Messages between processes: JSON only, so that reading one never runs code."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

Message = dict[str, Any]
MAX_BYTES = 8 << 20
"""Maximum bytes of a message, far above any real one. One of 64 MB could make a gigabyte of small objects."""
MAX_DEPTH = 64
"""Lists and objects within each other: what handles a message may recurse."""


class ChannelClosedError(Exception):
    """The other process has ended, or sent an invalid message."""


class ChannelTimeoutError(Exception):
    """No message came in time."""


class Channel:
    """One end of a pair of connected sockets; each message is its length in four bytes, then its text."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)

    @classmethod
    def pair(cls) -> tuple[Channel, socket.socket]:
        """Return this end, and the socket for the other process."""
        ours, theirs = socket.socketpair()
        return cls(ours.detach()), theirs

    def send(self, message: Message, seconds: float | None = None) -> None:
        """Send a message; raises `ChannelClosedError` when the other process has ended.

        Raises `ChannelTimeoutError` when it does not take the message within `seconds`.
        """
        data = json.dumps(message).encode()
        self._socket.settimeout(seconds)
        try:
            self._socket.sendall(len(data).to_bytes(4, "big") + data)
        except TimeoutError:
            raise ChannelTimeoutError from None
        except OSError:
            raise ChannelClosedError from None

    def receive(self, seconds: float | None = None) -> Message:
        """Return the next message; raises `ChannelTimeoutError` when it is not complete within `seconds`."""
        deadline = None if seconds is None else time.monotonic() + seconds
        length = int.from_bytes(self._read(4, deadline), "big")
        if length > MAX_BYTES:
            raise ChannelClosedError
        try:
            message = json.loads(self._read(length, deadline))
        except (ValueError, RecursionError):
            raise ChannelClosedError from None
        if not isinstance(message, dict) or _depth(message) > MAX_DEPTH:
            raise ChannelClosedError
        return message

    def _read(self, count: int, deadline: float | None) -> bytes:
        data = b""
        while len(data) < count:
            try:
                self._socket.settimeout(None if deadline is None else max(1e-6, deadline - time.monotonic()))
                part = self._socket.recv(min(count - len(data), 1 << 20))
            except TimeoutError:
                raise ChannelTimeoutError from None
            except OSError:
                raise ChannelClosedError from None
            if not part:
                raise ChannelClosedError
            data += part
        return data

    def close(self) -> None:
        """Close this end."""
        self._socket.close()


def _depth(message: Message) -> int:
    """Return how many lists and objects lie within each other."""
    depth = 0
    level: list[Any] = [message]
    while level and depth <= MAX_DEPTH:
        depth += 1
        inner = [item.values() if isinstance(item, dict) else item for item in level]
        level = [value for values in inner for value in values if type(value) in (dict, list)]
    return depth
