"""The tools that only read: `search_examples`, `read_guide` and `explain_error`."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import anyio
from pydantic import Field

from ..commands.retrieve import Options, as_text, examples_of, query_of
from ..core import Hit, KernelError
from ..core.events import Event, Note
from ..runtime.archive import Examples
from ..runtime.options.groups import Backend as BackendName
from ..runtime.reading import Explanation, GuidePage, Page, read_guide
from .workshop import Workshop

Language = Literal["tilelang_cpu", "tilelang", "triton"]


Backend: TypeAlias = Annotated[
    Literal["tilelang_cpu", "tilelang", "triton"] | None,
    Field(description="Backend of the shipped kernel that `kernel` names; by default the device's."),
]


class Example(Page):
    """A kernel before and after an optimization, both correct."""

    name: str
    title: str
    backend: str
    """Language and target."""
    operation: str
    """What is computed: matmul, softmax, layernorm, ..."""
    bottleneck: str
    """That of the kernel before: memory, compute, parallelism or algorithm."""
    techniques: list[str]
    """Techniques that the second kernel uses and the first does not."""
    gain: str
    """The measured speedup with its device; empty if it was not measured."""
    why: str
    """Reasons for its rank."""
    text: str
    """Symptom, cause and change, with both kernels or their diff; Markdown."""

    @classmethod
    def of(cls, hit: Hit, text: str) -> Example:
        """Return the example of a hit."""
        example = hit.example
        return cls(
            name=example.slug,
            title=example.title,
            backend=f"{example.language} for {example.target}",
            operation=example.operation,
            bottleneck=example.category,
            techniques=list(example.techniques),
            gain=str(example.gain or ""),
            why=hit.why,
            text=text or example.story,
        )


class ExampleList(Page):
    """Worked optimizations, the best fit first."""

    examples: list[Example]
    notes: list[str]
    """Remarks on the search, such as that words alone were compared."""
    next: str
    """What to do next."""


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
            Field(description="That of the kernel to improve, as profile names it."),
        ] = None,
        k: Annotated[int, Field(ge=1, le=5, description="At most this many examples.")] = 2,
    ) -> ExampleList:
        """Find worked optimizations of other kernels, each with its code before and after, and the measured gain."""
        wanted = None if backend is None else BackendName(backend)
        options = Options(text=query, backend=wanted, category=bottleneck, k=k)
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
        section: Annotated[str, Field(description="A title, or one close to it; empty lists the titles.")] = "",
    ) -> GuidePage:
        """Read a section of the guide to a kernel language: what its installed version accepts, in tested snippets."""
        return read_guide(BackendName(backend), section)

    async def explain_error(
        self,
        kernel: Annotated[str | None, Field(description="As named in the failed call; by default the latest.")] = None,
    ) -> Explanation:
        """Explain why a kernel failed in evaluate, profile or tune: the reason, the lines around it, and a remedy."""
        known = self._workshop.failures
        if kernel is None and known:
            return next(reversed(known.values()))
        if kernel is None or kernel not in known:
            raise KernelError(f"no failure of {kernel or 'any kernel'} is known here", "call evaluate first")
        return known[kernel]

    def _search(self, options: Options) -> list[Example]:
        self._notes = []
        if self._examples is None:
            self._examples = examples_of(options, self._heard)
        return [Example.of(hit, as_text(hit)) for hit in self._examples.search(query_of(options), options.k)]

    def _heard(self, event: Event) -> None:
        if isinstance(event, Note):
            self._notes.append(event.text)
