"""A separate program that runs untrusted code: where, and how it is confined."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple


class Apart(NamedTuple):
    """Folders, rights and environment of a program that is not forked from a server."""

    folder: Path
    """Where it writes."""
    inbox: Path
    """Folder of its input files, to which the reference worker writes, too."""
    inside: list[str]
    """The prefix of a command in namespaces of its own; empty without."""
    rules: dict[str, Any] | None
    """Rights that it gives up at its start (`workers.confinement.confine`); None without a sandbox. It may use local
    sockets, over which NVIDIA's tools talk to it."""
    environment: dict[str, str]
    """Torch keeps no memory in it: each tensor is an allocation of CUDA's."""
    options: dict[str, Any]
    """Options of a worker that executes launch plans."""
