"""Whether a server can be reached at all, before a client tries for minutes."""

from __future__ import annotations

import socket

PATIENCE_S = 5.0


def unreachable(host: str, port: int, patience_s: float = PATIENCE_S) -> str | None:
    """Why no connection comes about, in words; None when one does."""
    try:
        socket.create_connection((host, port), timeout=patience_s).close()
    except TimeoutError:
        return f"{host}:{port} does not answer"
    except OSError as error:
        return f"{host}:{port}: {error.strerror or error}"
    return None
