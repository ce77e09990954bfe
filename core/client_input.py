"""Standard input that ends with the client, even one that was killed while other processes hold its pipe open."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
from collections.abc import Iterator

PARENT_S = 0.5
"""Seconds between checks whether the client, which started this process, is still alive."""
_STDIN = 0


@contextlib.contextmanager
def client_input() -> Iterator[None]:
    """Within the block, standard input has the client's data.

    It ends when the client closes it, when the client has ended, at Ctrl-C, and with the block: a thread waiting for
    more would keep the process from ending. Only for the main thread.
    """
    try:
        source = os.dup(_STDIN)
    except OSError:  # there is no standard input
        yield
        return
    inner, outer = socket.socketpair()
    os.dup2(inner.fileno(), _STDIN)
    inner.close()
    threading.Thread(target=_pass_on, args=(source, outer, os.getppid()), daemon=True).start()

    def interrupt(*_: object) -> None:  # asyncio's own handler would wait for the thread that reads
        _end(outer)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        _end(outer)
        signal.signal(signal.SIGINT, before)


def _pass_on(source: int, outer: socket.socket, parent: int) -> None:
    with contextlib.suppress(OSError):  # the reader has gone
        while os.getppid() == parent:
            if not select.select([source], [], [], PARENT_S)[0]:
                continue
            if not (sent := os.read(source, 1 << 16)):
                break
            outer.sendall(sent)
    _end(outer)


def _end(outer: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has been ended
        outer.shutdown(socket.SHUT_WR)
