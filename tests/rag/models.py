"""The packaged embedding model, loaded once for all tests."""

from __future__ import annotations

import functools
import socket
from typing import Any
from unittest import mock

from kernelwright.rag import Embedder, load_embedder


@functools.cache
def embedder() -> Embedder:
    """The model; loading it may not open a connection."""

    def refuse(*_: Any) -> None:
        raise AssertionError("loading the packaged model opened a network connection")

    notes: list[str] = []
    with mock.patch.object(socket.socket, "connect", refuse):
        found = load_embedder(notes.append)
    assert found is not None and notes == []
    return found
