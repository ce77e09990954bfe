"""Checks whether a server can be reached at all, before a client tries for minutes."""

from __future__ import annotations

import socket

TIMEOUT_S = 5.0


def unreachable(host: str, port: int) -> str | None:
    """Return why no connection is possible; None when one is."""
    try:
        socket.create_connection((host, port), timeout=TIMEOUT_S).close()
    except TimeoutError:
        return f"{host}:{port} does not answer"
    except OSError as error:
        return f"{host}:{port}: {error.strerror or error}"
    return None
