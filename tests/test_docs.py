"""The examples in the documentation run, and what it links to exists."""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import yaml
from kernelwright.cli.main import app

from .quick_code import quickly

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])


@pytest.mark.timeout(900)  # what a page evaluates by itself waits for other tests to leave the processor idle
@pytest.mark.filterwarnings("ignore:no tuned config of gemm")  # gemm.md says that it comes
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_SANDBOX", "none")  # of commands: see `quickly`
    namespace: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(quickly(block), str(page), "exec"), namespace)


def public_modules() -> dict[str, Path]:
    """The modules that docs/api.md calls public, each with the page that it names."""
    table = (ROOT / "docs" / "api.md").read_text().partition("## What is public")[2]
    rows = re.findall(r"^\| `([\w.]+)` \| .* \| (?:\[.*\]\((.*\.md).*\)|this one) \|$", table, re.MULTILINE)
    return {module: ROOT / "docs" / (page or "api.md") for module, page in rows}


def private_names(code: str) -> Iterator[str]:
    """What a block of code uses of kernelwright that is not public."""
    public = public_modules()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            ours = [alias.name for alias in node.names if alias.name.partition(".")[0] == "kernelwright"]
            yield from (name for name in ours if name not in public)
        elif isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "kernelwright":
            found = vars(importlib.import_module(str(node.module)))
            exported = found.get("__all__", [alias.name for alias in node.names if not alias.name.startswith("_")])
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            for name, alias in zip(names, node.names, strict=True):
                if name not in public and (node.module not in public or alias.name not in exported):
                    yield name
        elif isinstance(node, ast.Attribute) and re.match(r"_(?!_)", node.attr):
            yield f".{node.attr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_use_nothing_private(page: Path) -> None:
    for block in re.findall(r"^```python.*?\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        assert list(private_names(block)) == []


def test_what_is_private() -> None:
    imports = "import kernelwright.core, kernelwright.cli\nfrom kernelwright.core import Config, records\n"
    code = f"{imports}Config._x, Config.__name__"
    assert list(private_names(code)) == ["kernelwright.cli", "kernelwright.core.records", "._x"]


def test_what_is_public_is_there_and_on_its_page() -> None:
    public = public_modules()
    assert len(public) > 30
    for module, page in public.items():
        importlib.import_module(module)
        assert module in page.read_text() or module == "kernelwright.runtime", f"{page.name} does not show {module}"


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives a page's headings; the site's are the same."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", page.read_text())  # `kernel[grid](x)` is code
    for link, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", text):
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
        words = line.split("#")[0].split("|")[0].partition(" -- ")[0].split()  # a script's own options follow
        command = root.commands["optimize"] if words[0] == "optimize" else root
        while hasattr(command, "commands") and (words := words[1:]):
            command = command.commands[words[0]]
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line
