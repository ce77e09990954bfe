"""Files that languages compile for themselves, whatever the kernel: kept by trusted workers, and copied to the others.

Without that every candidate's process would compile them again, since each has its own cache.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from ...core import known_languages
from ...core.language import cache_environment
from ..sandbox.untrusted_files import add_untrusted_file
from .base import support_of

MOST = 32
"""Files of a pattern that are copied, the newest."""


def keep_helpers(folder: Path) -> None:
    """Let the languages with such files have their caches there; for a worker that runs no candidate's Python."""
    caches = cache_environment(folder)
    for language in known_languages():
        if support_of(language).helpers:
            os.environ.update({name: caches[name] for name in language.cache_variables})


def copy_helpers(source: Path, caches: Path) -> None:
    """Copy what is there to another worker's caches, which may be links. Without it the worker compiles its own."""
    for language in known_languages():
        for pattern in support_of(language).helpers:
            newest_first = sorted((source / language.id).glob(pattern), key=_changed, reverse=True)
            for file in newest_first[:MOST]:
                name = file.relative_to(source)
                with contextlib.suppress(OSError):
                    caches.mkdir(parents=True, exist_ok=True)
                    if not os.path.lexists(caches / name):
                        add_untrusted_file(caches, name, file.read_bytes())


def _changed(file: Path) -> float:
    with contextlib.suppress(OSError):
        return file.stat().st_mtime
    return 0.0
