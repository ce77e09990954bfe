"""The server: tools, resources, and errors as one line."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    CallToolResult,
    ErrorData,
    InputRequiredResult,
    JSONRPCError,
    Resource,
    TextContent,
    ToolAnnotations,
)
from pydantic import ValidationError

from .. import __version__
from ..core import KernelwrightError
from .command_tools import command_tools
from .places import PAGE, Run, resource_links
from .reading_tools import ReadingTools
from .workshop import JobFailedError, Workshop

MIME = {"report": "text/html", "history": "application/jsonl", "kernel": "text/x-python", "result": "application/json"}
"""MIME types of a run's resources, by kind."""
REPORT_S = 60.0
IDLE_S = 1800.0
"""Seconds after which an HTTP session without a request ends."""
NAME = "kernelwright"
INSTRUCTIONS = """\
Makes Triton and TileLang kernels faster and proves it on this machine's hardware. A kernel is a Python file with \
`class ModelNew`, judged against a PyTorch reference with `class Model`; shipped ones have names such as level1/1_23. \
Paths are relative to the server's folder.

Work like this: evaluate (is it correct, how fast), profile (what bounds it), search_examples and read_guide, change \
one thing in the file, evaluate again; when the structure is settled, tune its constants. Stop when profile says \
times_floor is near 1. After a failure call explain_error. optimize does this by itself with built-in rules; \
list_slow shows where to begin.

Times are medians of one call in ms. Believe a gain only if its interval excludes the old value and warnings is \
empty. Calls that measure wait for each other. tune and optimize leave a run: kernelwright://runs lists them.
"""


def build(workshop: Workshop) -> MCPServer[Any]:
    """The server for a folder."""
    server = Server(workshop)
    reading = ReadingTools(workshop)
    for read in (reading.search_examples, reading.read_guide, reading.explain_error):
        server.add_tool(read, annotations=_hints(read_only=True))
    for name, tool, leaves_files in command_tools(workshop):
        server.add_tool(tool, name, annotations=_hints(read_only=not leaves_files))
    return server


class Server(MCPServer[Any]):
    """An `MCPServer` that shows runs as resources, and whose failed calls say what the command would print.

    The resources: `kernelwright://runs`, and of each run its report, history, kernel and result.
    """

    def __init__(self, workshop: Workshop) -> None:
        super().__init__(NAME, instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
        self._workshop = workshop
        readers = {
            "report": (self._report, "The page of a run: convergence, turns, figures."),
            "history": (self._history, "The journal of a run: each kernel, trial and turn as a JSON line."),
            "kernel": (self._kernel, "The fastest kernel of a run, where one is faster than the start."),
            "result": (self._result, "What the tool returned."),
        }
        self.resource("kernelwright://runs", mime_type="application/json", description="All runs, the latest first.")(
            self._list
        )
        for kind, (reader, description) in readers.items():
            uri = f"kernelwright://runs/{{run}}/{kind}"
            self.resource(uri, name=kind, mime_type=MIME[kind], description=description)(reader)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool. A mistake of the caller and a failed job are results of one line."""
        if (mistake := self._unknown(name, arguments)) is not None:
            return CallToolResult(content=[TextContent(type="text", text=f"error: {mistake}")], is_error=True)
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if (line := _line(error.__cause__)) is None:
                raise
            return CallToolResult(content=[TextContent(type="text", text=f"error: {line}")], is_error=True)

    async def run_stdio_async(self) -> None:
        """Serve a client over stdio; input that is not a message of the protocol gets an error as its answer."""
        async with stdio_server() as (read, write), anyio.create_task_group() as tasks:
            send, received = create_context_streams[SessionMessage | Exception](0)

            async def answer() -> None:
                async with send:
                    async for message in read:
                        if isinstance(message, Exception):
                            await write.send(SessionMessage(_malformed(message)))
                        else:
                            await send.send(message)

            tasks.start_soon(answer)
            await self._lowlevel_server.run(received, write, self._lowlevel_server.create_initialization_options())
            tasks.cancel_scope.cancel()

    def _unknown(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """Return which argument a tool does not have, which the SDK would ignore: a caller would rely on it."""
        tool = self._tool_manager.get_tool(name)
        known = set(tool.parameters.get("properties", ())) if tool is not None else set(arguments)
        wrong = sorted(set(arguments) - known)
        if not wrong:
            return None
        return f"`{wrong[0]}`: {name} has no such argument; it has {', '.join(sorted(known))}"

    async def list_resources(self) -> list[Resource]:
        """Return the list of runs, then the resources of each run."""
        found = await super().list_resources()
        for run in self._workshop.runs.all():
            links = resource_links(run.id)
            kinds = [kind for kind in links if kind != "kernel" or run.saved_kernel]
            found += [Resource(uri=links[kind], name=f"{kind} of {run.id}", mime_type=MIME[kind]) for kind in kinds]
        return found

    def _list(self) -> str:
        runs = [run.record.model_dump(exclude={"result", "server"}) for run in self._workshop.runs.all()]
        return json.dumps(runs, indent=1)

    async def _report(self, run: str) -> str:
        found = self._found(run)
        page = found.folder / PAGE
        options = {"run": str(self._journal(found)), "output": str(page)}
        try:
            await self._workshop.do("report", options, REPORT_S, _silent)
        except (KernelwrightError, JobFailedError) as error:
            raise ResourceError(str(error)) from error
        return self._text(page)

    def _history(self, run: str) -> str:
        return self._text(self._journal(self._found(run)))

    def _kernel(self, run: str) -> str:
        with _not_found():
            return self._text(self._workshop.runs.kernel(self._found(run)))

    def _result(self, run: str) -> str:
        return json.dumps(self._found(run).record.result, indent=1)

    def _found(self, run: str) -> Run:
        with _not_found():
            return self._workshop.runs.find(run)

    def _journal(self, run: Run) -> Path:
        with _not_found():
            return self._workshop.runs.journal(run)

    @staticmethod
    def _text(path: Path) -> str:
        try:
            return path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise ResourceError(f"cannot read {path.name}: {error.strerror}") from error


@contextlib.contextmanager
def _not_found() -> Iterator[None]:
    try:
        yield
    except KernelwrightError as error:
        raise ResourceNotFoundError(str(error)) from error


def _malformed(error: Exception) -> JSONRPCError:
    """Return the answer to input that is not JSON, or not a request."""
    errors = error.errors(include_url=False) if isinstance(error, ValidationError) else []
    is_json = bool(errors) and all(item["type"] != "json_invalid" for item in errors)
    code, text = (INVALID_REQUEST, "Invalid request") if is_json else (PARSE_ERROR, "Parse error")
    return JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=code, message=text))


def security(address: str, port: int, origins: Sequence[str]) -> TransportSecuritySettings:
    """The web pages that may call: the server's own address, and those that the user names."""
    places = [f"{host}:{port}" for host in (address, "localhost")]
    own = [f"http://{place}" for place in places]
    return TransportSecuritySettings(allowed_hosts=places, allowed_origins=[*own, *origins])


def _line(cause: BaseException | None) -> str | None:
    if isinstance(cause, KernelwrightError):
        return str(cause)
    if isinstance(cause, JobFailedError):
        return f"internal error of kernelwright: {cause}"
    if isinstance(cause, ValidationError):
        return "; ".join(
            f"`{'.'.join(map(str, error['loc'])) or 'arguments'}`: {error['msg']}"
            for error in cause.errors(include_url=False)
        )
    return None


def _hints(read_only: bool) -> ToolAnnotations:
    return ToolAnnotations(read_only_hint=read_only, destructive_hint=False, open_world_hint=False)


async def _silent(progress: float, total: float | None, text: str) -> None:
    """Reading a resource has no progress."""
