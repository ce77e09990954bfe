"""What ``model`` means."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from kernelwright.agent.models.choice import DEFAULT, RULES, Kind, ModelChoice, choose, parse
from kernelwright.core import ModelError


def test_a_model_by_its_name_may_hold_more_slashes() -> None:
    assert parse("openai/o3") == ModelChoice(Kind.NAMED, "openai/o3")
    assert parse("together_ai/meta-llama/Llama-3").kind is Kind.NAMED
    assert parse("openai/llama:70b").kind is Kind.NAMED


def test_rules_are_no_model() -> None:
    assert parse("rules") == RULES
    assert not RULES.is_model
    assert parse("openai/o3").is_model


def test_replay_and_files_have_paths(tmp_path: Path) -> None:
    recorded = tmp_path / "a:b.jsonl"
    recorded.touch()
    assert parse(f"replay:{recorded}") == ModelChoice(Kind.REPLAY, f"replay:{recorded}")
    assert parse(f"replay:{recorded}").path == recorded
    assert parse(f"files:{tmp_path / 'new'}").path == tmp_path / "new"
    assert parse(f"files:{tmp_path}").kind is Kind.FILES


@pytest.mark.parametrize("text", ["gpt-4o", "openai/", "/o3", "", "Rules", "reply:x"])
def test_what_is_no_model_is_reported_with_what_is(text: str) -> None:
    with pytest.raises(
        ModelError, match="is not a model; write provider/name such as openai/o3, replay:FILE, files:DIR"
    ):
        parse(text)


@pytest.mark.parametrize("prefix", ["replay", "files"])
def test_a_path_that_is_missing_is_reported_with_an_example(prefix: str) -> None:
    with pytest.raises(ModelError, match=f"names no path; write one, such as {prefix}:"):
        parse(f"{prefix}:")


def test_a_recording_must_be_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(ModelError, match=f"there is no file {path}"):
            parse(f"replay:{path}")


def test_a_folder_must_be_none_or_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match="is not a folder"):
        parse(f"files:{tmp_path / 'file'}")


def test_the_default_is_the_strongest_that_there_is_a_key_for() -> None:
    assert choose(None, {"OPENAI_API_KEY": "k"}) == parse(DEFAULT)
    assert choose(None, {"OPENAI_API_KEY": ""}) == RULES
    assert choose(None, {}) == RULES
    assert choose("rules", {"OPENAI_API_KEY": "k"}) == RULES
    assert choose("openai/gpt-4o", {}).name == "openai/gpt-4o"


def test_a_typing_mistake_is_reported_without_loading_dspy() -> None:
    code = "import sys, kernelwright.agent.models.choice; sys.exit('dspy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
