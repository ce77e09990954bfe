"""Find worked optimizations, by meaning and by words.

Exit codes: 0 something was found, 1 nothing was, 2 wrong usage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.text import Text

from ..core import BOTTLENECKS, Hit, Kernel, OptionError, Query, of_backend
from ..core.events import Emit, notes
from ..core.quotation import quoted
from ..corpus import find_kernel
from ..rag.render import within
from ..runtime import command, result
from ..runtime.archive import EarlierRuns, Examples
from ..runtime.options.groups import Backend, EarlierRunsOptions
from ..runtime.options.option import described, option
from ..runtime.runtime import Runtime

EXAMPLES = (
    'retrieve "row softmax reads its input three times" --backend triton',
    "retrieve --kernel 1_36 --k 5 --source",
)
POSITIONAL = ("text",)
EXAMPLE_TOKENS = 3000
"""Maximum number of tokens of an example as text."""


@dataclass(frozen=True, kw_only=True)
class Options(EarlierRunsOptions):
    """Find worked optimizations."""

    text: str = field(
        default="", kw_only=False, metadata=described("A symptom, a technique or an idea, in words.", metavar="TEXT")
    )
    k: int = option(3, "Maximum number of examples.", at_least=1)
    kernel: str | None = option(
        None,
        "The kernel to improve: a path, level2/2_10.py, 2_10. Its own problem is left out.",
        metavar="REF",
        trusted=True,
    )
    backend: Backend | None = option(None, "Examples of one backend; by default the kernel's, or all.")
    category: str | None = option(None, "The bottleneck: memory, compute, parallelism or algorithm.")
    operation: str | None = option(None, "The operation: matmul, softmax, layernorm, ...")
    device: str | None = option(None, "The device's name as in the examples' measurements, such as 'NVIDIA H200'.")
    results: Path = option(Path("results"), "Folder of earlier runs, whose findings are searched too.")
    source: bool = option(False, "Print the optimized kernels too.")


@dataclass(frozen=True)
class Plan(command.Plan):
    """The query, and the examples to search."""

    query: Query
    k: int
    source: bool
    """Whether the optimized kernels are shown."""
    examples: Examples = field(metadata=command.NOT_SHOWN)

    def to_json(self) -> dict[str, Any]:
        """Return the plan with the query, without the kernel's source."""
        query = {name: str(value) for name, value in vars(self.query).items() if value and name != "source"}
        return {"query": query, **super().to_json()}


class Result(result.Result):
    """Worked optimizations, the best first."""

    hits: result.ForPython[list[Hit]]
    source: result.ForPython[bool] = False

    @result.computed
    def examples(self) -> list[dict[str, Any]]:
        """The examples, each with both kernels."""
        return [_record(hit) for hit in self.hits]

    @property
    def exit_code(self) -> int:
        """1 if nothing was found."""
        return 0 if self.hits else 1

    def lines(self) -> Iterator[Any]:
        """Title, techniques, gain and story of each example, and the reasons for its rank."""
        for hit in self.hits:
            example = hit.example
            yield Text.from_markup(f"[bold]{escape(example.slug)}[/]: {escape(example.title)}")
            yield f"  {', '.join(example.techniques)}; {example.gain or 'not measured'}"
            yield f"  {hit.why}"
            yield f"  {example.story}"
            if self.source:
                yield example.after


def _record(hit: Hit) -> dict[str, Any]:
    example = hit.example
    return {
        "example": example.slug,
        "title": example.title,
        "score": hit.score,
        "why": hit.why,
        "techniques": list(example.techniques),
        "category": example.category,
        "story": example.story,
        "gain": example.gain.model_dump(mode="json") if example.gain else None,
        "before": example.before,
        "after": example.after,
    }


def plan(options: Options, runtime: Runtime) -> Plan:
    """Read the query."""
    return Plan.of(options, query=query_of(options), examples=examples_of(options, runtime.emit))


def run(plan: Plan, emit: Emit) -> Result:
    """Search the examples."""
    return Result(hits=plan.examples.search(plan.query, plan.k), source=plan.source)


def examples_of(options: Options, emit: Emit) -> Examples:
    """Return the examples to search. The first search loads a model, so keep the object for repeated searches."""
    return Examples(EarlierRuns(options.results, notes(emit), options.archive), options.own_examples, notes(emit))


def query_of(options: Options) -> Query:
    """Return the query that the options describe."""
    if not (options.text or options.kernel or options.operation or options.category):
        raise OptionError("there is nothing to search for", "give words, `kernel`, `operation` or `category`")
    if options.category is not None and options.category not in BOTTLENECKS:
        raise OptionError(f"`category` {options.category!r}", f"use {', '.join(BOTTLENECKS)}")
    kernel, problem = _kernel(options)
    language, target = of_backend(options.backend) if options.backend else (None, None)
    return Query(
        text=options.text,
        language=language or (kernel.language if kernel else None),
        target=target or (kernel.target if kernel else None),
        device=options.device,
        operation=options.operation,
        category=options.category,
        source=kernel.source if kernel else None,
        exclude=problem,
    )


def as_text(hit: Hit) -> str:
    """Return the example as Markdown with its kernels or their diff, quoted; '' if that is too long."""
    text = within([hit], EXAMPLE_TOKENS)
    return quoted(text) if text else ""


def _kernel(options: Options) -> tuple[Kernel | None, str | None]:
    """Return the kernel to improve, and the id of its problem if the name contains it."""
    if options.kernel is None:
        return None, None
    file = find_kernel(options.kernel, options.backend or Backend.TRITON)
    return file.read(), file.problem
