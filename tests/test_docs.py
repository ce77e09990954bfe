"""The examples in the documentation run, and what it links to exists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer
import yaml
from kernelwright.cli.main import app

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])


@pytest.mark.timeout(900)  # functions of Python are not quick: they wait for other tests to leave the processor idle
@pytest.mark.filterwarnings("ignore:no tuned config of gemm")  # gemm.md says that it comes
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page: Path) -> None:
    namespace: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(page), "exec"), namespace)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives a page's headings; the site's are the same."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text()):
        target = page.parent / link if link else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), f"{link}#{anchor}"


def test_the_site_has_every_page() -> None:
    """`make docs` stops where a page is in no part of the navigation, or where one is not there."""

    class Loader(yaml.SafeLoader):
        """Leaves names of Python functions alone."""

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: suffix)
    navigation = json.dumps(yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)["nav"])
    listed = set(re.findall(r"[\w/-]+\.md", navigation))
    outside = {"index.md", "contributing.md", "changelog.md", "recorded_runs.md"}  # see docs/site_pages.py
    assert listed == outside | {str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")}


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 90


def test_every_rule_is_documented() -> None:
    from kernelwright.agent.rules import RULES

    text = (ROOT / "docs" / "optimization.md").read_text()
    assert [rule.name for rule in RULES if f"| {rule.name} |" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_option_of_a_command_exists(page: Path) -> None:
    """Each option in a line that calls one of our commands is one that this command has."""
    root = typer.main.get_command(app)
    for line in re.findall(r"^    (?:\$ )?((?:kernelwright|optimize) .*)$", page.read_text(), re.MULTILINE):
        words = line.split("#")[0].split("|")[0].split()
        command = root.commands["optimize"] if words[0] == "optimize" else root
        while hasattr(command, "commands") and (words := words[1:]):
            command = command.commands[words[0]]
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line
