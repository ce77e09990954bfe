"""The runs as resources: `kernelwright://runs`, and of each its report, history, kernel and result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp_types import Resource

from ..core import KernelwrightError, ResultsError
from .process import JobBroke
from .results.runs import resource_links
from .runs import PAGE, Run
from .workshop import Workshop

MIME = {
    "report": "text/html",
    "history": "application/jsonl",
    "kernel": "text/x-python",
    "result": "application/json",
}
"""Of the resources of a run, by kind."""
REPORT_S = 60.0


class RunResources(MCPServer[Any]):
    """The part of the server that shows runs."""

    def offer_runs(self, workshop: Workshop) -> None:
        """Register the list of runs, and a template for each kind."""
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

    async def list_resources(self) -> list[Resource]:
        """The list of runs, then what each of them has."""
        found = await super().list_resources()
        for run in self._workshop.runs.all():
            links = resource_links(run.id)
            kinds = [kind for kind in links if kind != "kernel" or run.record.result.get("saved_kernel")]
            found += [Resource(uri=links[kind], name=f"{kind} of {run.id}", mime_type=MIME[kind]) for kind in kinds]
        return found

    def _list(self) -> str:
        runs = [run.record.model_dump(exclude={"result"}) for run in self._workshop.runs.all()]
        return json.dumps(runs, indent=1)

    async def _report(self, run: str) -> str:
        found = self._found(run)
        page = found.folder / PAGE
        options = {"run": str(self._journal(found)), "output": str(page)}
        try:
            await self._workshop.do("report", options, REPORT_S, _silent)
        except (KernelwrightError, JobBroke) as error:
            raise ResourceError(str(error)) from error
        return self._text(page)

    def _history(self, run: str) -> str:
        return self._text(self._journal(self._found(run)))

    def _kernel(self, run: str) -> str:
        try:
            return self._text(self._workshop.runs.kernel(self._found(run)))
        except KernelwrightError as error:
            raise ResourceNotFoundError(str(error)) from error

    def _result(self, run: str) -> str:
        return json.dumps(self._found(run).record.result, indent=1)

    def _found(self, run: str) -> Run:
        try:
            return self._workshop.runs.find(run)
        except ResultsError as error:
            raise ResourceNotFoundError(str(error)) from error

    def _journal(self, run: Run) -> Path:
        try:
            return self._workshop.runs.journal(run)
        except KernelwrightError as error:
            raise ResourceNotFoundError(str(error)) from error

    @staticmethod
    def _text(path: Path) -> str:
        try:
            return path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise ResourceError(f"cannot read {path.name}: {error.strerror}") from error


async def _silent(progress: float, total: float | None, text: str) -> None:
    """Reading a resource has no progress."""
