"""The server: tools, resources, and errors as one line."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import ValidationError

from .. import __version__
from ..api.options.server import ServerOptions
from ..core import KernelwrightError
from .process import JobBroke
from .resources import RunResources
from .tools.commands import command_tools
from .tools.improving import ImprovingTools
from .tools.measuring import MeasuringTools
from .tools.reading import ReadingTools
from .workshop import Workshop

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


def build(options: ServerOptions, sandbox: str) -> MCPServer[Any]:
    """The server for a folder; `sandbox` names one that works here."""
    workshop = Workshop(options, sandbox)
    server = Server(workshop)
    measuring, improving, reading = MeasuringTools(workshop), ImprovingTools(workshop), ReadingTools(workshop)
    for look in (measuring.evaluate, measuring.profile, measuring.list_slow):
        server.add_tool(look, annotations=_hints(read_only=True))
    for improve in (improving.tune, improving.optimize):
        server.add_tool(improve, annotations=_hints(read_only=False))
    for read in (reading.search_examples, reading.read_guide, reading.explain_error):
        server.add_tool(read, annotations=_hints(read_only=True))
    for name, tool in command_tools(workshop):
        server.add_tool(tool, name, annotations=_hints(read_only=False))
    return server


class Server(RunResources, MCPServer[Any]):
    """An `MCPServer` whose failed calls say what the command would print."""

    def __init__(self, workshop: Workshop) -> None:
        super().__init__(NAME, instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
        self.offer_runs(workshop)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; a mistake of the caller's and a failed job are results with one line."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if (line := _line(error.__cause__)) is None:
                raise
            return CallToolResult(content=[TextContent(type="text", text=f"error: {line}")], is_error=True)


def _line(cause: BaseException | None) -> str | None:
    if isinstance(cause, KernelwrightError):
        return str(cause)
    if isinstance(cause, JobBroke):
        return f"kernelwright failed, which is a mistake of its own: {cause}"
    if isinstance(cause, ValidationError):
        return "; ".join(
            f"`{'.'.join(map(str, error['loc'])) or 'arguments'}`: {error['msg']}"
            for error in cause.errors(include_url=False)
        )
    return None


def _hints(read_only: bool) -> ToolAnnotations:
    return ToolAnnotations(read_only_hint=read_only, destructive_hint=False, open_world_hint=False)
