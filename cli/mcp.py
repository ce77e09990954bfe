"""`kernelwright mcp`: serve coding agents."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import typer

from ..api.options.server import ServerOptions, Transport
from .guard import guarded
from .help_examples import with_examples
from .parameters import with_options

LOOPBACK = "127.0.0.1"


@with_examples("mcp --root ~/kernels", "mcp --root ~/kernels --transport http --port 8484")
@with_options(ServerOptions)
def mcp(given: Mapping[str, Any]) -> None:
    """Serve coding agents: tools that evaluate, profile, tune and optimize the kernels of one folder.

    Exit codes: 0 the client left, 2 wrong usage.
    """

    def work() -> int:
        from .parameters import chosen

        serve(chosen(given, ServerOptions))
        return 0

    raise typer.Exit(guarded(work, "the server has ended"))


def serve(options: ServerOptions) -> None:
    """Serve until the client leaves, or for ever."""
    from ..core import OptionError

    if find_spec("mcp") is None:
        raise OptionError("the server needs the MCP SDK", "pip install 'kernelwright[mcp]'")
    from ..api.isolation import required_sandbox
    from ..mcp_server.server import build

    server = build(options, required_sandbox(options.device))
    if options.transport is Transport.STDIO:
        server.run("stdio")
        return
    _require_free(options.port)
    typer.echo(f"serving {options.root.resolve()} at http://{LOOPBACK}:{options.port}/mcp", err=True)
    server.run("streamable-http", host=LOOPBACK, port=options.port)


def _require_free(port: int) -> None:
    from ..core import OptionError

    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((LOOPBACK, port))
        except OSError as error:
            raise OptionError(f"`port` {port}: {error.strerror}", "choose another one") from None
