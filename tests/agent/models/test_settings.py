"""How models are reached: what the server sees of the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kernelwright.agent.models.choice import RULES, parse
from kernelwright.agent.models.models import ANALYSE, REWRITE
from kernelwright.core import OptionError

from ...openai_server import OpenAIServer, Text
from .asking import ENVIRONMENT, Asked, ask


def sent(folder: Path, model: str, **settings: Any) -> dict[str, Any]:
    """The body of one request."""
    with OpenAIServer([Text("fine")]) as server:
        assert ask(Asked(folder, model, server, **settings).models()) == "fine"
    return server.requests[0].body


def test_without_settings_none_are_sent(tmp_path: Path) -> None:
    body = sent(tmp_path, "openai/gpt-4o")
    assert body["model"] == "gpt-4o"
    assert not {"temperature", "max_tokens", "max_completion_tokens", "stream"} & set(body)


def test_a_temperature_is_sent(tmp_path: Path) -> None:
    assert sent(tmp_path, "openai/gpt-4o", temperature=0.25)["temperature"] == 0.25
    assert Asked(tmp_path).records[0]["request"]["settings"] == {"temperature": 0.25}


def test_a_model_that_reasons_is_sent_no_temperature(tmp_path: Path) -> None:
    body = sent(tmp_path, "openai/o3")
    assert body["model"] == "o3"
    assert "temperature" not in body


@pytest.mark.parametrize("temperature", [0.0, 0.7, 2.0])
def test_a_model_that_reasons_takes_no_temperature_but_one(tmp_path: Path, temperature: float) -> None:
    with pytest.raises(OptionError, match=rf"`temperature` {temperature:g}: openai/o3 reasons, .* leave it out"):
        Asked(tmp_path, "openai/o3", temperature=temperature).models()
    assert Asked(tmp_path / "one", "openai/o3", temperature=1.0).models()


def test_the_temperature_of_replies_in_files_is_nobodys_business(tmp_path: Path) -> None:
    models = Asked(tmp_path, f"files:{tmp_path}", temperature=0.7).models()
    assert models.lm(REWRITE, "1.0").kwargs["temperature"] is None


def test_a_server_of_ones_own_needs_no_key(tmp_path: Path) -> None:
    with OpenAIServer([Text("fine")], key="none") as server:
        assert ask(Asked(tmp_path, "openai/my-model", server).models(environment={})) == "fine"
    assert server.requests[0].body["model"] == "my-model"


def test_a_server_of_ones_own_gets_the_key_that_there_is(tmp_path: Path) -> None:
    with OpenAIServer([Text("fine")]) as server:
        ask(Asked(tmp_path, server=server).models())
    assert server.requests[0].headers["authorization"] == f"Bearer {server.key}"


def test_a_server_of_ones_own_is_not_asked_for_the_models_of_others(tmp_path: Path) -> None:
    with OpenAIServer([Text("kernel")]) as server:
        asked = Asked(tmp_path, server=server, analysis=parse("anthropic/claude-sonnet-4-5"))
        models = asked.models(environment={**ENVIRONMENT, "ANTHROPIC_API_KEY": "sk-ant-0123456789"}, reply_s=2)
        reached = {choice.name: lm.kwargs.get("api_base") for choice, lm in models._named.items()}
        assert reached == {"openai/gpt-4o": server.base_url, "anthropic/claude-sonnet-4-5": None}
        assert ask(models) == "kernel"


def test_a_server_of_ones_own_wants_a_model_of_its_protocol(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"`api_base` .* write openai/llama3 for a model of that server, or leave"):
        Asked(tmp_path, "ollama/llama3", api_base="http://127.0.0.1:1/v1")


def test_a_separate_model_analyses(tmp_path: Path) -> None:
    with OpenAIServer([Text("memory"), Text("kernel")]) as server:
        asked = Asked(tmp_path, "openai/o3", server, analysis=parse("openai/gpt-4o"))
        models = asked.models()
        assert ask(models, purpose=ANALYSE) == "memory"
        assert ask(models, purpose=REWRITE) == "kernel"
    assert [request.body["model"] for request in server.requests] == ["gpt-4o", "o3"]
    assert [(record["purpose"], record["model"]) for record in asked.records] == [
        ("analyse", "openai/gpt-4o"),
        ("rewrite", "openai/o3"),
    ]


def test_one_model_does_both_by_default(tmp_path: Path) -> None:
    with OpenAIServer([Text("memory"), Text("kernel")]) as server:
        models = Asked(tmp_path, server=server).models()
        ask(models, purpose=ANALYSE)
        ask(models, purpose=REWRITE)
    assert [request.body["model"] for request in server.requests] == ["gpt-4o", "gpt-4o"]


def test_the_rules_cannot_analyse_for_a_model(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="the rules are not a language model; name one for `analysis_model`"):
        Asked(tmp_path, analysis=RULES)
