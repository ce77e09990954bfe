"""Guides to the kernel languages: Markdown files of short sections, which a model reads one by one.

Fenced blocks marked `python` run on the installed versions; those marked `python refused` fail with the error in
their first line; `python compiled` shows compiled code; `text` is for reading only.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from ..core import Language, OptionError, Target, known_languages

_FOLDER = Path(__file__).parent / "guides"


def guide_for(language: Language, target: Target) -> str:
    """Return the name of the guide to a language on a target; raises `OptionError` without one."""
    return language.dialect(target).guide


def guides() -> dict[str, Path]:
    """Return the files of all guides, by the guides' names."""
    return {
        dialect.guide: (language.guides or _FOLDER) / f"{dialect.guide}.md"
        for language in known_languages()
        for dialect in language.dialects
    }


def sections(guide: str) -> dict[str, str]:
    """Return the sections of a guide by title, in order; each text is Markdown that begins with its heading.

    Raises `OptionError` for a guide that does not exist.
    """
    known = guides()
    if guide not in known:
        raise OptionError(f"no guide {guide!r}; there are {', '.join(known)}")
    try:
        text = known[guide].read_text(encoding="utf-8")
    except OSError as error:
        raise OptionError(f"cannot read the guide {known[guide]}: {error}") from None
    _, *parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return {part.splitlines()[0].removeprefix("## "): part.rstrip() for part in parts}


def section(guide: str, title: str) -> str:
    """Return the section with this title or the nearest one; raises `OptionError`, which lists the titles."""
    found = sections(guide)
    by_key = {_key(guide): guide for guide in found}
    near = difflib.get_close_matches(_key(title), by_key, n=1, cutoff=0.6) or [
        key for key in by_key if _key(title) and _key(title) in key
    ]
    if not near:
        raise OptionError(f"no section {title!r} in the guide {guide!r}; its sections: {', '.join(found)}")
    return found[by_key[near[0]]]


def _key(title: str) -> str:
    """Normalize a title: no case, no punctuation, no dialect prefix as in `T.copy`."""
    return re.sub(r"[^a-z0-9]+", " ", title.lower().removeprefix("t.")).strip()
