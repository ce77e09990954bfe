"""The examples in the documentation run, and what it links to exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page: Path) -> None:
    namespace: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / link).exists(), link


def test_every_rule_is_documented() -> None:
    from kernelwright.agent.rules import RULES

    text = (ROOT / "docs" / "optimization.md").read_text()
    assert [rule.name for rule in RULES if f"| {rule.name} |" not in text] == []


def test_every_option_of_the_readme_exists() -> None:
    source = (ROOT / "cli" / "main.py").read_text()
    for option in set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", (ROOT / "README.md").read_text())):
        name = option.removeprefix("--").replace("-", "_")
        assert f"{name}:" in source or option in source or option == "--system-site-packages", option
