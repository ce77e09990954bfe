"""`retrieve`: worked optimizations, searched by meaning and by words."""

from __future__ import annotations

from ..core import BOTTLENECKS, Hit, Kernel, OptionError, Query, of_backend
from ..core.events import Emit, notes
from ..core.quotation import quoted
from ..corpus import find_kernel
from ..rag.render import within
from .archive import EarlierRuns
from .examples import Examples
from .options.groups import Backend
from .options.retrieve import RetrieveOptions

EXAMPLE_TOKENS = 3000
"""Of one example as text, at the most."""


def run_retrieve(options: RetrieveOptions, emit: Emit) -> list[Hit]:
    """Up to `options.k` examples, the best first."""
    return search(examples_of(options, emit), options)


def examples_of(options: RetrieveOptions, emit: Emit) -> Examples:
    """What is searched. It loads its model with the first search, so whoever searches often keeps it."""
    return Examples(EarlierRuns(options.results, notes(emit), options.archive), options.own_examples, notes(emit))


def as_text(hit: Hit) -> str:
    """The example as Markdown with its kernels, or what changed in them, quoted; '' where that is too long."""
    text = within([hit], EXAMPLE_TOKENS)
    return quoted(text) if text else ""


def search(examples: Examples, options: RetrieveOptions) -> list[Hit]:
    """Up to `options.k` of the examples, the best first."""
    if not (options.text or options.kernel or options.operation or options.category):
        raise OptionError("there is nothing to search for", "give words, `kernel`, `operation` or `category`")
    if options.category is not None and options.category not in BOTTLENECKS:
        raise OptionError(f"`category` {options.category!r}", f"use {', '.join(BOTTLENECKS)}")
    kernel, problem = _kernel(options)
    language, target = of_backend(options.backend) if options.backend else (None, None)
    query = Query(
        text=options.text,
        language=language or (kernel.language if kernel else None),
        target=target or (kernel.target if kernel else None),
        device=options.device,
        operation=options.operation,
        category=options.category,
        source=kernel.source if kernel else None,
        exclude=problem,
    )
    return examples.search(query, options.k)


def _kernel(options: RetrieveOptions) -> tuple[Kernel | None, str | None]:
    """The kernel that is to be improved, and the id of its problem where its name tells."""
    if options.kernel is None:
        return None, None
    file = find_kernel(options.kernel, options.backend or Backend.TRITON)
    return file.read(), file.problem
