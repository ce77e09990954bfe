"""The options of the MCP server."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from .groups import OUTPUT, DeviceOptions
from .option import option
from .trust import QuickOptions

LIMITS = "Limits"
SERVER = "Server"


class Transport(StrEnum):
    """How clients reach the server."""

    STDIO = "stdio"
    HTTP = "http"


@dataclass(frozen=True, kw_only=True)
class ServerOptions(QuickOptions, DeviceOptions):
    """Serve coding agents."""

    root: Path = option(
        Path(), "The folder that tools may read and write; nothing outside.", SERVER, metavar="DIR", trusted=True
    )
    transport: Transport = option(
        Transport.STDIO,
        "stdio (the client starts the server), or http (streamable HTTP on 127.0.0.1).",
        SERVER,
        trusted=True,
    )
    port: int = option(8484, "Of the loopback address, for http.", SERVER, at_least=1, at_most=65535, trusted=True)
    max_trials: int = option(
        200, "The most evaluations of one call; a call may ask for fewer.", LIMITS, at_least=1, trusted=True
    )
    max_seconds: float = option(
        600.0,
        "The most seconds of one call, in which it begins new work; a call may ask for fewer.",
        LIMITS,
        above=0,
        trusted=True,
    )
    results: Path = option(Path("results/mcp"), "Folder within `root` for what the tools leave.", OUTPUT, metavar="DIR")

    def check(self) -> None:
        """Raise `OptionError` for a folder that is not there, or results outside of it."""
        from ...core.errors import OptionError

        super().check()
        if not self.root.is_dir():
            raise OptionError(f"`root` {self.root} is no folder", "name the folder of your kernels")
        if not (self.root / self.results).resolve().is_relative_to(self.root.resolve()):
            raise OptionError(f"`results` {self.results} is outside of `root` {self.root}", "name a folder within it")
