"""A server for tests, within this process and as one of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kernelwright.mcp_server.command import Options, open_server
from kernelwright.mcp_server.server import Server
from mcp.client.stdio import StdioServerParameters

from ..surroundings import KERNELWRIGHT


def server(root: Path, **options: Any) -> Server:
    """One of this process; what it has evaluated needs a sandbox as always."""
    made: Server = open_server(Options(root=root, device="cpu", quick=True, **options), "landlock")()
    return made


def process(root: Path, *arguments: str, **environment: str) -> StdioServerParameters:
    """The command as a client starts it."""
    command, *first = KERNELWRIGHT
    return StdioServerParameters(
        command=command,
        args=[*first, "mcp", "--root", str(root), "--device", "cpu", *arguments],
        env={**os.environ, **environment},
    )


def text_of(answer: Any) -> str:
    """The text of a result."""
    (content,) = answer.content
    return str(content.text)


def refused(answer: Any) -> str:
    """The one line of a failed call."""
    assert answer.is_error, answer
    text = text_of(answer)
    assert "\n" not in text and text.startswith("error: "), text
    return text
