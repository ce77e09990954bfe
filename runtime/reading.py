"""Texts for agents: sections of guides to kernel languages, and explanations of failures."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from ..core import Evaluation, Kernel, Rejection, Status, of_backend
from ..prompts import guide_for, section, sections
from .options.groups import Backend


class Page(BaseModel):
    """Base of texts, with a description of each field."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class GuidePage(Page):
    """A section of the guide to a kernel language; each of its snippets runs on the installed version."""

    guide: str
    """The guide's name: 'triton', 'tilelang', 'tilelang_cpu'."""
    section: str
    """Title of the section; empty if only titles were requested."""
    text: str
    """Markdown that starts with the heading."""
    sections: list[str]
    """The titles of all sections of this guide."""


class Explanation(Page):
    """Explanation of a kernel's failure, with references to guides."""

    kernel: str
    """The name used in the call that failed."""
    status: Status
    """The step that failed."""
    text: str
    """The message, the lines of the kernel that it refers to with their context, and the end of the output."""
    rule: Rejection | None
    """With status rejected, the broken rule, its place, and the alternative."""
    guide: str
    """The guide to the kernel's language, for read_guide."""
    sections: list[str]
    """The titles of its sections."""
    next: str
    """Common remedies."""


def read_guide(backend: Backend, title: str = "") -> GuidePage:
    """Return the section with this title, or the closest match; without a title, the titles only.

    Raises `OptionError` with the titles if none is close.
    """
    guide = guide_for(*of_backend(backend))
    text = section(guide, title) if title else ""
    found = text.splitlines()[0].removeprefix("## ") if text else ""
    return GuidePage(guide=guide, section=found, text=text, sections=list(sections(guide)))


def explain(name: str, kernel: Kernel, evaluation: Evaluation) -> Explanation:
    """Explain the failure of `evaluation`. `kernel` is the evaluated source."""
    from ..agent.program.briefing import advice  # the server that reads guides needs none of it
    from ..agent.program.context import error_context

    guide = guide_for(kernel.language, kernel.target)
    return Explanation(
        kernel=name,
        status=evaluation.status,
        text=error_context(kernel, evaluation),
        rule=evaluation.rejection,
        guide=guide,
        sections=list(sections(guide)),
        next=advice(evaluation.status),
    )
