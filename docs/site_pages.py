"""A hook of MkDocs: the same Markdown serves GitHub and the site.

README and a few other files outside docs/ become pages of the site; other files that a page links to, such as a record
of figures, are copied to it. Links are written as GitHub reads them, and changed here.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "results/samples/README.md": "recorded_runs.md",
}
"""Files of the repository that are pages, and their place in the site."""
COPIED = "files"
"""The site's folder of files that pages link to."""
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)")
FILE = re.compile(r"^```(\w+) file=(\S+)$", re.MULTILINE)
"""The beginning of a block that is a whole file, which the tests write under this name."""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages and files from outside docs/."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for path in sorted({path for file in files.documentation_pages() for path in _linked(file)}):
        place = _place(path)
        if files.get_file_from_path(place) is None:
            files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Write the links and the names of files in a page as the site has them."""
    folder = posixpath.dirname(_source(page.file.src_uri))

    def moved(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, found[1]))
        if not (ROOT / path).is_file():
            return found[1]
        return posixpath.relpath(_place(path), posixpath.dirname(page.file.src_uri) or ".")

    return FILE.sub(r'```\1 title="\2"', LINK.sub(moved, markdown))


def _linked(file: File) -> set[str]:
    """Return the files of the repository that a page links to."""
    source = _source(file.src_uri)
    links = LINK.findall((ROOT / source).read_text())
    paths = {posixpath.normpath(posixpath.join(posixpath.dirname(source), link)) for link in links}
    return {path for path in paths if (ROOT / path).is_file()}


def _source(page: str) -> str:
    """Return where a page of the site stands in the repository."""
    return next((source for source, place in PAGES.items() if place == page), f"docs/{page}")


def _place(path: str) -> str:
    """Return where a file of the repository stands in the site."""
    inside = path.removeprefix("docs/")
    return PAGES.get(path) or (inside if inside != path else f"{COPIED}/{path}")
