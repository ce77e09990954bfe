"""What a browser makes of the page of a run, and text that would be markup if a page did not quote it."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import kernelwright
from kernelwright.commands.report import TIMES, Result

from ..agent.history.recorded import JOURNAL, Change, copied

VOID = {"meta", "br"}
ELEMENTS = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "section", "h1", "h2", "h3", "p", "div"),
    *("span", "b", "strong", "small", "br", "a", "code", "pre", "ul", "ol", "li", "dl", "dt", "dd", "details"),
    *("summary", "table", "thead", "tbody", "tr", "th", "td", "figure", "figcaption"),
    *("svg", "defs", "g", "path", "use", "text", "clippath", "rect"),
}
"""All that a page is made of. Scripts, images, links and frames are not among them."""
EVIL = "</pre></details></style><script>alert(1)</script><img src=x onerror=alert(1)> & {{ 7*7 }} \"'"


class Page(HTMLParser):
    """What a browser would make of a page, as far as the tests ask."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = text
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[tuple[tuple[str, ...], str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if not attrs:
            self.attributes.append((tag, "", ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((tuple(self.open), data))

    @property
    def elements(self) -> set[str]:
        return {tag for tag, _, _ in self.attributes}

    @property
    def text(self) -> str:
        """With single spaces, and the sign of multiplication as an x."""
        return " ".join("".join(text for _, text in self.texts).split()).replace(TIMES, "x")

    def within(self, element: str) -> str:
        return "\n".join(text for path, text in self.texts if element in path)

    def values(self, attribute: str) -> list[str]:
        return [value for _, name, value in self.attributes if name == attribute]


def report(run: Path, output: Path | None = None) -> Result:
    return kernelwright.report(run, output=output)


def page_of(folder: Path, name: str = JOURNAL, change: Change = lambda records: records) -> Page:
    """The page of the recorded run with one of its files changed."""
    copied(folder, name, change)
    report(folder, folder / "page.html")
    return Page((folder / "page.html").read_text(encoding="utf-8"))
