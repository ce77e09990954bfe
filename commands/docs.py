"""Show a page of the documentation, or list all pages.

Exit codes: 0 shown, 2 there is no such page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown
from rich.text import Text

from ..core import OptionError
from ..core.events import Emit
from ..corpus.names import nearest
from ..runtime import command, result
from ..runtime.options.option import Options as BaseOptions
from ..runtime.options.option import described
from ..runtime.runtime import Runtime

EXAMPLES = ("docs", "docs timing")
POSITIONAL = ("page",)
FOLDER = Path(__file__).parents[1] / "docs"


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Show a page of the documentation, or list all pages."""

    page: str | None = field(
        default=None,
        kw_only=False,
        metadata=described("The page, such as timing; without one, all pages are listed.", metavar="NAME"),
    )


@dataclass(frozen=True)
class Plan(command.Plan):
    """The page that is shown; None to list all."""

    page: str | None
    pages: Mapping[str, Path] = field(metadata=command.NOT_SHOWN)


@dataclass(frozen=True)
class MarkdownPage:
    """A page, formatted on a terminal, otherwise as Markdown."""

    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Markdown(self.text, hyperlinks=False) if console.is_terminal else Text(self.text.rstrip("\n"))


class Result(result.Result):
    """A page, or the titles of all pages."""

    absent_if_empty = ("page", "text", "pages")

    page: str = ""
    """The name of the page that is shown."""
    text: str = ""
    """Markdown of the page."""
    pages: dict[str, str] = {}
    """Titles by page name, if no page was named."""

    def lines(self) -> Iterator[Any]:
        """The page; or a line for each, with the command that shows one."""
        if self.page:
            yield MarkdownPage(self.text)
            return
        width = max(map(len, self.pages), default=0)
        yield from (f"{name:<{width}}  {title}" for name, title in self.pages.items())
        yield "`kernelwright docs NAME` shows a page"


def plan(options: Options, runtime: Runtime) -> Plan:
    """Find the page; docs/timing.md and timing.md name it too."""
    pages = find_pages()
    if options.page is None:
        return Plan(None, pages)
    name = options.page.partition("#")[0].removeprefix("docs/").removesuffix(".md")
    if name not in pages:
        raise OptionError(f"there is no page '{options.page}'{nearest(name, pages)}", "'kernelwright docs' lists them")
    return Plan(name, pages)


def run(plan: Plan, emit: Emit) -> Result:
    """Read the page, or the title of each."""
    if plan.page is not None:
        return Result(page=plan.page, text=plan.pages[plan.page].read_text(encoding="utf-8"))
    return Result(pages={name: _title(path) for name, path in plan.pages.items()})


def find_pages() -> dict[str, Path]:
    """Return the shipped pages by name; the skill for agents is one."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.md"))} | {"skill": FOLDER / "skill" / "SKILL.md"}


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as page:
        return next((line[2:].strip() for line in page if line.startswith("# ")), "")
