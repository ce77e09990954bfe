"""What `search_examples`, `read_guide` and `explain_error` return."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core import Rejection, Status
from .reply import Reply

if TYPE_CHECKING:
    from ...api.explain import Explanation as ExplanationRecord
    from ...api.guides import GuidePage as GuidePageRecord
    from ...core import Hit


class Example(Reply):
    """A kernel before and after an optimization, both correct."""

    name: str
    title: str
    backend: str
    """Language and target."""
    operation: str
    """What is computed: matmul, softmax, layernorm, ..."""
    bottleneck: str
    """Of the kernel before: memory, compute, parallelism or algorithm."""
    techniques: list[str]
    """What the kernel after has and the one before lacks."""
    gain: str
    """The measured speedup with its device; empty where it was not measured."""
    why: str
    """Why it was found."""
    text: str
    """Symptom, cause and change, with both kernels or what changed in them; Markdown."""

    @classmethod
    def of(cls, hit: Hit, text: str) -> Example:
        """What was found."""
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


class ExampleList(Reply):
    """Worked optimizations, the best fit first."""

    examples: list[Example]
    notes: list[str]
    """Remarks on the search, such as that words alone were compared."""
    next: str
    """What to do next."""


class GuidePage(Reply):
    """A section of the guide to a kernel language; each of its snippets runs on the installed version."""

    guide: str
    section: str
    """The title of the section; empty where only titles were asked for."""
    text: str
    """Markdown."""
    sections: list[str]
    """The titles of all sections of this guide."""

    @classmethod
    def of(cls, page: GuidePageRecord) -> GuidePage:
        """A page of `api`."""
        return cls(guide=page.guide, section=page.title, text=page.text, sections=list(page.titles))


class Explanation(Reply):
    """Why a kernel failed, and where to read on."""

    kernel: str
    """As it was named in the call that failed."""
    status: Status
    """The step that failed."""
    text: str
    """The message, the lines of the kernel that it names with those around them, and the end of the output."""
    rule: Rejection | None
    """With status rejected: the rule that the kernel broke, where, and what to do instead."""
    guide: str
    """The guide to the kernel's language, for read_guide."""
    sections: list[str]
    """The titles of its sections."""
    next: str
    """What usually helps."""

    @classmethod
    def of(cls, kernel: str, record: ExplanationRecord) -> Explanation:
        """The explanation in `api`'s record."""
        return cls(
            kernel=kernel,
            status=record.status,
            text=record.text,
            rule=record.rejection,
            guide=record.guide.guide,
            sections=list(record.guide.titles),
            next=record.advice,
        )
