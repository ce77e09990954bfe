"""Serve coding agents: tools that evaluate, profile, tune and optimize the kernels of one folder.

Exit codes: 0 the client left, 2 wrong usage.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..core import OptionError
from ..core.client_input import client_input
from ..core.events import Emit, Note
from ..runtime import command, result
from ..runtime.evaluators import required_sandbox
from ..runtime.options.groups import OUTPUT, DeviceOptions
from ..runtime.options.option import option
from ..runtime.options.trust import QuickOptions
from ..runtime.runtime import Runtime

EXAMPLES = ("mcp --root ~/kernels", "mcp --root ~/kernels --transport http --port 8484")
TO_STDERR = True
INTERRUPTED = "the server has ended"
LOOPBACK = "127.0.0.1"
LIMITS = "Limits"
SERVER = "Server"


class Transport(StrEnum):
    """How clients reach the server."""

    STDIO = "stdio"
    HTTP = "http"


@dataclass(frozen=True, kw_only=True)
class Options(QuickOptions, DeviceOptions):
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
    port: int = option(8484, "Port on 127.0.0.1, for http.", SERVER, at_least=1, at_most=65535, trusted=True)
    origins: tuple[str, ...] = option(
        (),
        "A web page that may also call the server, such as http://localhost:3000, for http.",
        SERVER,
        metavar="URL",
        trusted=True,
    )
    max_trials: int = option(
        200, "The most evaluations per call; a call may ask for fewer.", LIMITS, at_least=1, trusted=True
    )
    max_seconds: float = option(
        600.0,
        "The most seconds during which a call starts new work; a call may ask for fewer.",
        LIMITS,
        above=0,
        trusted=True,
    )
    results: Path = option(Path("results/mcp"), "Folder within `root` for the tools' files.", OUTPUT, metavar="DIR")

    def check(self) -> None:
        """Raise `OptionError` for a folder that is not there, or results outside of it."""
        super().check()
        if not self.root.is_dir():
            raise OptionError(f"`root` {self.root} is not a folder", "name the folder of your kernels")
        if not (self.root / self.results).resolve().is_relative_to(self.root.resolve()):
            raise OptionError(f"`results` {self.results} is outside of `root` {self.root}", "name a folder within it")


@dataclass(frozen=True)
class Plan(command.Plan):
    """A server, and where clients reach it."""

    root: Path
    device: str
    sandbox: str
    transport: Transport
    port: int
    open_server: Callable[[], Any] = field(metadata=command.NOT_SHOWN)
    http: Mapping[str, Any] = field(metadata=command.NOT_SHOWN)
    """Arguments of the http transport."""


class Result(result.Result):
    """The end of a server, which leaves runs and no result."""

    def lines(self) -> Iterator[str]:
        """Nothing."""
        return iter(())


def plan(options: Options, runtime: Runtime) -> Plan:
    """Find a sandbox, without which nothing is served, and a free port."""
    if find_spec("mcp") is None:
        raise OptionError("the server needs the MCP SDK", "pip install 'kernelwright[mcp]'")
    sandbox = required_sandbox(options.device)
    if options.transport is Transport.HTTP:
        _require_free(options.port)
    from .server import IDLE_S, security  # with it comes the SDK

    allowed = security(LOOPBACK, options.port, options.origins)
    http = {"transport_security": allowed, "session_idle_timeout": IDLE_S}
    return Plan.of(options, sandbox=sandbox, open_server=open_server(options, sandbox), http=http)


def open_server(options: Options, sandbox: str) -> Callable[[], Any]:
    """Return a function that makes the server; `sandbox` names one that works here."""
    from .server import build  # with it comes the SDK
    from .workshop import ToolLimits, Workshop

    limits = ToolLimits(options.max_trials, options.max_seconds)
    measured = {"device": options.device, "sandbox": sandbox, "quick": options.quick}
    return lambda: build(Workshop(options.root, options.results, limits, measured))


def run(plan: Plan, emit: Emit) -> Result:
    """Serve until the client leaves, or for ever."""
    server = plan.open_server()
    if plan.transport is Transport.STDIO:
        with client_input():
            server.run("stdio")
    else:
        emit(Note(f"serving {plan.root.resolve()} at http://{LOOPBACK}:{plan.port}/mcp"))
        server.run("streamable-http", host=LOOPBACK, port=plan.port, **plan.http)
    return Result()


def _require_free(port: int) -> None:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((LOOPBACK, port))
        except OSError as error:
            raise OptionError(f"`port` {port}: {error.strerror}", "choose another one") from None
