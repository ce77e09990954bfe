"""Templates: what they refuse, and their rendered texts as golden files.

After an intended change: `GOLDEN=write pytest tests/prompts/test_templates.py`, and read the difference.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from kernelwright.evaluators.correctness.fp64 import FLOOR
from kernelwright.prompts import names, render, templates

GOLDEN = Path(__file__).with_name("golden")
CONTRACT = {"language": "triton", "imports": "import triton\nimport triton.language as tl"}
TASK = {"language": "triton", "contract": render("contract", **CONTRACT)}
TOOLS = ["evaluate", "explain_error", "profile", "read_guide", "search_examples", "tune"]
VALUES: dict[str, dict[str, str]] = {
    "analyse": {"language": "triton"},
    "contract": CONTRACT,
    "first": TASK,
    "reflect": {"language": "triton"},
    "repair": TASK,
    "rewrite": TASK,
} | {f"tools/{tool}": {} for tool in TOOLS}


def test_names_are_all_templates_and_no_guide() -> None:
    assert names() == sorted(VALUES)


@pytest.mark.parametrize("name", names())
def test_the_rendered_text_is_the_golden_one(name: str) -> None:
    text = render(name, **VALUES[name])
    path = GOLDEN / f"{name.replace('/', '_')}.md"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text + "\n", encoding="utf-8")
    assert text + "\n" == path.read_text(encoding="utf-8")


def test_no_golden_file_is_left_over() -> None:
    assert sorted(path.stem for path in GOLDEN.iterdir()) == sorted(name.replace("/", "_") for name in names())


@pytest.mark.parametrize("name", [name for name in names() if VALUES[name]])
def test_a_variable_without_a_value_is_refused(name: str) -> None:
    for left_out in VALUES[name]:
        values = {key: value for key, value in VALUES[name].items() if key != left_out}
        with pytest.raises(ValueError, match=rf"^template '{name}' needs a value for {left_out}$"):
            render(name, **values)


@pytest.mark.parametrize("name", names())
def test_a_value_that_is_not_used_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^template '{name}' does not use colour$"):
        render(name, **VALUES[name], colour="red")


@pytest.mark.parametrize("name", ["nothing", "", "guides/triton", "../README", "tools/../rewrite"])
def test_a_name_that_is_no_template_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"^no template .*; there are analyse, contract, "):
        render(name)


def test_an_attribute_that_a_value_lacks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made_up.md").write_text("On {{ device.name }}.")
    monkeypatch.setattr(templates, "_FOLDER", tmp_path)
    with pytest.raises(ValueError, match=r"^template 'made_up': .*has no attribute 'name'$"):
        render("made_up", device="cpu")


@pytest.mark.parametrize("name", ["analyse", "rewrite"])
def test_the_error_that_a_model_is_told_to_stay_below_is_the_one_that_is_refused(name: str) -> None:
    (limit,) = re.findall(r"\d\.\de-\d", render(name, **VALUES[name]))
    assert float(limit) == FLOOR["float32"]


def test_values_are_text_and_no_templates() -> None:
    assert "{{ x }} <&>" in render("analyse", language="{{ x }} <&>")


@pytest.mark.parametrize("tool", TOOLS)
def test_tools_are_described_in_one_or_two_sentences(tool: str) -> None:
    assert 1 <= render(f"tools/{tool}").count(". ") + 1 <= 2
