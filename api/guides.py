"""The guides to the kernel languages, section by section."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Kernel, of_backend
from ..prompts import guide_for, section, sections
from .options.groups import Backend


@dataclass(frozen=True)
class GuidePage:
    """One section of a guide."""

    guide: str
    """The guide's name: 'triton', 'tilelang', 'tilelang_cpu'."""
    title: str
    text: str
    """Markdown, which begins with the heading; '' where only the titles were asked for."""
    titles: tuple[str, ...]
    """Of all sections of the guide, in order."""


def read_guide(backend: Backend, title: str = "") -> GuidePage:
    """The section with this title, or the nearest one; without a title the titles alone.

    Raises `OptionError`, which lists the titles, where none is near.
    """
    guide = guide_for(*of_backend(backend))
    titles = tuple(sections(guide))
    if not title:
        return GuidePage(guide, "", "", titles)
    text = section(guide, title)
    return GuidePage(guide, text.splitlines()[0].removeprefix("## "), text, titles)


def guide_of(kernel: Kernel) -> GuidePage:
    """The titles of the guide to a kernel's language."""
    guide = guide_for(kernel.language, kernel.target)
    return GuidePage(guide, "", "", tuple(sections(guide)))
