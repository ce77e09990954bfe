"""What is recorded of replies as servers really give them, and how budgets count them."""

from __future__ import annotations

from pathlib import Path

import dspy
import pytest
from dspy import lm15
from kernelwright.agent.models.choice import parse
from kernelwright.agent.models.engines import BudgetSpentError
from kernelwright.agent.models.models import ANALYSE, REWRITE
from kernelwright.core import Budget

from ...openai_server import Empty, Fail, Hang, Malformed, OpenAIServer, ScriptStep, Text, Tools, Truncated
from .asking import MODEL, Asked, ask


def test_an_exchange_is_recorded_with_what_it_was_for_and_what_it_cost(tmp_path: Path) -> None:
    with OpenAIServer([Text("memory"), Text("a tile of 64")]) as server:
        asked = Asked(tmp_path, server=server)
        models = asked.models()
        ask(models, "what bounds it?", lane="1.0", purpose=ANALYSE)
        ask(models, "make it faster", lane="1.1", purpose=REWRITE)
        cost = models.transcript.cost(["1.1"])
    first, second = asked.records
    assert [(r["number"], r["lane"], r["purpose"]) for r in (first, second)] == [
        (1, "1.0", "analyse"),
        (2, "1.1", "rewrite"),
    ]
    assert second["kind"] == "exchange" and second["model"] == "openai/gpt-4o"
    assert second["request"]["messages"] == [{"role": "user", "text": "make it faster"}]
    assert second["reply"]["text"] == "a tile of 64"
    assert second["reply"]["finish_reason"] == "stop"
    assert (second["reply"]["input_tokens"], second["reply"]["output_tokens"]) == (12, 3)
    assert len(second["digest"]) == 16 and second["digest"] != first["digest"]
    # gpt-4o: 2.50 dollars for a million tokens in, 10 out.
    assert second["dollars"] == pytest.approx(12 * 2.5e-6 + 3 * 10e-6)
    assert 0 <= second["seconds"] < 10
    assert second["at"].startswith("20")
    assert cost == {"exchanges": 1, "tokens": 15, "dollars": second["dollars"], "seconds": second["seconds"]}


def test_the_system_text_and_the_tools_on_offer_are_recorded(tmp_path: Path) -> None:
    with OpenAIServer([Tools([("evaluate", {"BLOCK": 64})], content="see")]) as server:
        asked = Asked(tmp_path, server=server)
        request = lm15.Request(
            model=MODEL,
            system="You are a compiler.",
            messages=(lm15.Message.user("hello"),),
            tools=(lm15.FunctionTool(name="evaluate", parameters={"type": "object", "properties": {}}),),
        )
        asked.models().lm(REWRITE, "1.0")(request)
    assert server.requests[0].body["tools"][0]["function"]["name"] == "evaluate"
    (record,) = asked.records
    assert record["request"]["system"] == "You are a compiler."
    assert record["request"]["tools"] == ["evaluate"]
    assert record["reply"]["text"] == "see"
    assert record["reply"]["tool_calls"] == [{"id": "call_0", "name": "evaluate", "arguments": {"BLOCK": 64}}]


@pytest.mark.parametrize(
    ("step", "text", "finish"),
    [
        (Truncated("```python\nimport"), "```python\nimport", "length"),
        (Empty(), "", "stop"),
        (Text(""), "", "stop"),
        (Malformed(b"{}"), "", "stop"),
        (Text("ünïcode \u2028 and \x00"), "ünïcode \u2028 and \x00", "stop"),
    ],
)
def test_a_reply_is_recorded_as_it_is(tmp_path: Path, step: ScriptStep, text: str, finish: str) -> None:
    with OpenAIServer([step]) as server:
        asked = Asked(tmp_path, server=server)
        assert ask(asked.models()) == text
    (record,) = asked.records
    assert (record["reply"].get("text", ""), record["reply"]["finish_reason"]) == (text, finish)
    assert ask(asked.resumed()) == text
    assert len(server.requests) == 1


def test_arguments_of_a_tool_that_are_no_json_reach_the_tool_as_they_are(tmp_path: Path) -> None:
    with OpenAIServer([Tools([("evaluate", "{not json")])]) as server:
        asked = Asked(tmp_path, server=server)
        asked.models().lm(REWRITE, "1.0")("hello")
    (call,) = asked.records[0]["reply"]["tool_calls"]
    assert (call["name"], call["arguments"]) == ("evaluate", {"partial_json": "{not json"})


@pytest.mark.parametrize(
    ("step", "error", "explained"),
    [
        (Malformed(b"<html>bad gateway</html>"), "LMProviderError", "openai/gpt-4o failed: "),
        (Malformed(b"[]"), "LMUnexpectedError", "openai/gpt-4o failed: "),
        (Malformed(b""), "LMProviderError", "openai/gpt-4o failed: "),
        (Hang(0.01), "LMTransportError", "the server of openai/gpt-4o failed"),
    ],
)
def test_what_is_no_reply_is_recorded_as_an_error(tmp_path: Path, step: ScriptStep, error: str, explained: str) -> None:
    with OpenAIServer([step]) as server:
        asked = Asked(tmp_path, server=server)
        models = asked.models()
        with pytest.raises(dspy.LMError) as caught:
            ask(models)
    (record,) = asked.records
    assert record["error"].startswith(f"{error}: ") and "reply" not in record
    assert models.explain(caught.value).startswith(explained)
    assert models.transcript.spent == Budget(tokens=0, dollars=0)


def test_a_context_that_is_too_long_is_an_error_of_its_own(tmp_path: Path) -> None:
    step = Fail(400, "This model's maximum context length is 8 tokens.", code="context_length_exceeded")
    with OpenAIServer([step]) as server:
        asked = Asked(tmp_path, server=server)
        models = asked.models(retries=4)
        with pytest.raises(dspy.ContextWindowExceededError) as caught:
            ask(models)
    assert len(server.requests) == 1
    assert models.explain(caught.value).startswith("the prompt is too long for openai/gpt-4o even without examples")
    assert asked.records[0]["error"].startswith("ContextWindowExceededError: ")


def test_an_error_of_the_analysis_names_its_model(tmp_path: Path) -> None:
    with OpenAIServer([], models={"o3"}) as server:
        models = Asked(tmp_path, "openai/o3", server, analysis=parse("openai/gpt-4o")).models()
        with pytest.raises(dspy.LMError) as caught:
            ask(models, purpose=ANALYSE)
    assert models.explain(caught.value).startswith("there is no model openai/gpt-4o;")


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (Budget(tokens=20), "budget of 20 tokens used up"),
        (Budget(dollars=0.00007), "budget of 7e-05 dollars used up"),
    ],
)
def test_a_budget_ends_the_asking(tmp_path: Path, budget: Budget, said: str) -> None:
    with OpenAIServer([Text("a tile of 64")] * 3) as server:
        asked = Asked(tmp_path, server=server, budget=budget)
        models = asked.models()
        ask(models, "first")
        ask(models, "second")
        with pytest.raises(BudgetSpentError) as caught:
            ask(models, "third")
        assert models.explain(caught.value) == said
    assert len(server.requests) == len(asked.records) == 2


def test_a_budget_counts_what_the_resumed_run_spent(tmp_path: Path) -> None:
    with OpenAIServer([Text("a tile of 64")] * 3) as server:
        asked = Asked(tmp_path, server=server, budget=Budget(tokens=20))
        models = asked.models()
        ask(models, "first")
        ask(models, "second")
        spent = models.transcript.spent
        assert spent.tokens and spent.tokens > 20 and spent.dollars
        resumed = asked.resumed()
        assert resumed.transcript.spent == spent
        # What is known already costs nothing, so it is given even now.
        assert ask(resumed, "first") == ask(resumed, "second") == "a tile of 64"
        assert resumed.transcript.spent == spent
        with pytest.raises(BudgetSpentError, match="budget of 20 tokens"):
            ask(resumed, "third")
    assert len(server.requests) == 2


def test_a_budget_of_zero_asks_nothing(tmp_path: Path) -> None:
    with OpenAIServer([]) as server:
        models = Asked(tmp_path, server=server, budget=Budget(tokens=0)).models()
        with pytest.raises(BudgetSpentError, match="budget of 0 tokens used up"):
            ask(models)
    assert server.requests == []


def test_the_time_of_the_run_ends_the_asking(tmp_path: Path) -> None:
    with OpenAIServer([]) as server:
        models = Asked(tmp_path, server=server).models(late=lambda: "budget of 60 seconds used up")
        with pytest.raises(BudgetSpentError, match="budget of 60 seconds used up"):
            ask(models)
    assert server.requests == []
