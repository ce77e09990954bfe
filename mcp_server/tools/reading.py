"""`search_examples`, `read_guide` and `explain_error`: what is known."""

from __future__ import annotations

from typing import Annotated, Literal

import anyio
from pydantic import Field

from ...api.examples import Examples
from ...api.guides import read_guide
from ...api.options.groups import Backend as BackendName
from ...api.options.retrieve import RetrieveOptions
from ...api.retrieve import as_text, examples_of, search
from ...core import KernelError
from ...core.events import Event, Note
from ..results.reading import Example, ExampleList, Explanation, GuidePage
from ..workshop import Workshop
from .arguments import Backend

Language = Literal["tilelang_cpu", "tilelang", "triton"]


class ReadingTools:
    """Tools that measure nothing."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self._notes: list[str] = []
        """Remarks on the latest search, for its reply."""
        self._examples: Examples | None = None
        """Kept: loading the model that compares meanings takes seconds."""
        self._lock = anyio.Lock()

    async def search_examples(
        self,
        query: Annotated[str, Field(description="A few words on the operation, the symptom and the technique.")],
        backend: Backend = None,
        bottleneck: Annotated[
            Literal["memory", "compute", "parallelism", "algorithm"] | None,
            Field(description="Of the kernel to improve, as profile names it."),
        ] = None,
        k: Annotated[int, Field(ge=1, le=5, description="At most this many examples.")] = 2,
    ) -> ExampleList:
        """Find worked optimizations of other kernels, each with its code before and after and the measured gain."""
        wanted = None if backend is None else BackendName(backend)
        options = RetrieveOptions(text=query, backend=wanted, category=bottleneck, k=k)
        async with self._lock:
            found = await anyio.to_thread.run_sync(self._search, options)
        return ExampleList(
            examples=found,
            notes=self._notes,
            next="take over the idea, not the code: sizes and names are another problem's",
        )

    async def read_guide(
        self,
        backend: Annotated[Language, Field(description="The kernel's language and target.")],
        section: Annotated[str, Field(description="A title, or near to one; empty lists the titles.")] = "",
    ) -> GuidePage:
        """Read a section of the guide to a kernel language: what its installed version accepts, in tested snippets."""
        return GuidePage.of(read_guide(BackendName(backend), section))

    async def explain_error(
        self,
        kernel: Annotated[str | None, Field(description="As it was named; by default what failed last.")] = None,
    ) -> Explanation:
        """Explain why a kernel failed in evaluate, profile or tune: the reason, the lines around it, what helps."""
        known = self._workshop.failures
        if kernel is None and known:
            return next(reversed(known.values()))
        if kernel is None or kernel not in known:
            raise KernelError(f"no failure of {kernel or 'any kernel'} is known here", "call evaluate first")
        return known[kernel]

    def _search(self, options: RetrieveOptions) -> list[Example]:
        self._notes = []
        if self._examples is None:
            self._examples = examples_of(options, self._heard)
        return [Example.of(hit, as_text(hit)) for hit in search(self._examples, options)]

    def _heard(self, event: Event) -> None:
        if isinstance(event, Note):
            self._notes.append(event.text)
