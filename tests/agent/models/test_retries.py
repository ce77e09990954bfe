"""A request is repeated after a temporary failure, with a message, and never beyond the run's limits."""

from __future__ import annotations

import time
from pathlib import Path

import dspy
import pytest
from kernelwright.agent.models.engines import BudgetSpentError
from kernelwright.agent.models.models import REWRITE

from ...openai_server import Cut, Fail, Hang, Malformed, OpenAIServer, ScriptStep, Text, Tools, Truncated
from .asking import Asked, ask

SOON = {"Retry-After": "0.05"}
SLOW_DOWN = Fail(429, "slow down", {"Retry-After": "0.3"})


def test_a_rate_limit_is_waited_for_as_long_as_the_server_says(tmp_path: Path) -> None:
    with OpenAIServer([SLOW_DOWN, Text("fine")]) as server:
        asked = Asked(tmp_path, server=server)
        start = time.monotonic()
        assert ask(asked.models(retries=1)) == "fine"
        assert time.monotonic() - start >= 0.3
    (told,) = asked.told
    assert told.startswith("openai/gpt-4o failed for now (slow down")
    assert told.endswith("); asking again in 0 s")
    assert [record["reply"]["text"] for record in asked.records] == ["fine"]


def test_a_failure_of_the_server_is_waited_for_a_second_then_two(tmp_path: Path) -> None:
    with OpenAIServer([Fail(500, "broken"), Fail(503, "overloaded")]) as server:
        asked = Asked(tmp_path, server=server)
        start = time.monotonic()
        # The second wait is ended, so that this takes one second, not three.
        models = asked.models(retries=4, late=lambda: "enough" if len(asked.told) == 2 else None)
        with pytest.raises(BudgetSpentError, match="enough"):
            ask(models)
        assert 1 <= time.monotonic() - start < 3
    assert [told.rpartition("; ")[2] for told in asked.told] == ["asking again in 1 s", "asking again in 2 s"]


def test_in_the_end_it_is_given_up(tmp_path: Path) -> None:
    with OpenAIServer([Fail(500, "broken", SOON)] * 3) as server:
        asked = Asked(tmp_path, server=server)
        models = asked.models(retries=2)
        with pytest.raises(dspy.LMServerError) as caught:
            ask(models)
        assert models.explain(caught.value).startswith("the server of openai/gpt-4o failed; ")
    assert len(server.requests) == 3
    (record,) = asked.records
    assert record["error"].startswith("LMServerError: ") and "broken" in record["error"]
    assert "reply" not in record


@pytest.mark.parametrize(
    "step", [Fail(400, "bad"), Fail(401, "no"), Fail(429, "pay", SOON, code="insufficient_quota"), Malformed(b"<html>")]
)
def test_what_will_not_pass_is_not_tried_again(tmp_path: Path, step: ScriptStep) -> None:
    with OpenAIServer([step, Text("never")]) as server:
        asked = Asked(tmp_path, server=server)
        with pytest.raises(dspy.LMError):
            ask(asked.models(retries=4))
    assert len(server.requests) == 1
    assert asked.told == []


def test_an_hour_is_not_waited_for(tmp_path: Path) -> None:
    with OpenAIServer([Fail(429, "slow down", {"Retry-After": "3600"})]) as server:
        asked = Asked(tmp_path, server=server)
        models = asked.models(retries=4)
        start = time.monotonic()
        with pytest.raises(dspy.LMRateLimitError) as caught:
            ask(models)
        assert time.monotonic() - start < 60
    assert "allows no more requests for the next 3600 s; wait, then go on with `resume`" in models.explain(caught.value)
    assert asked.told == []


def test_the_time_limit_of_the_run_ends_a_wait(tmp_path: Path) -> None:
    with OpenAIServer([Fail(429, "slow down", {"Retry-After": "15"})]) as server:
        start = time.monotonic()
        models = Asked(tmp_path, server=server).models(
            retries=4, late=lambda: "budget of 1 seconds used up" if time.monotonic() > start + 1 else None
        )
        with pytest.raises(BudgetSpentError, match="budget of 1 seconds used up") as caught:
            ask(models)
        assert time.monotonic() - start < 15
    assert models.explain(caught.value) == "budget of 1 seconds used up"
    assert isinstance(caught.value.__cause__, dspy.LMRateLimitError)


def test_a_request_that_took_all_its_time_is_not_repeated(tmp_path: Path) -> None:
    with OpenAIServer([Hang(30), Text("late")]) as server, pytest.raises(dspy.LMTransportError, match="timed out"):
        ask(Asked(tmp_path, server=server).models(reply_s=0.3, retries=4))
    assert len(server.requests) == 1


@pytest.mark.parametrize("watch", [False, True])
def test_a_request_takes_no_longer_than_the_run(tmp_path: Path, watch: bool) -> None:
    with OpenAIServer([Hang(30), Text("never")]) as server:
        end = time.monotonic() + 1
        asked = Asked(tmp_path, server=server)
        models = asked.models(
            retries=4,
            watch=watch,
            late=lambda: "budget of 1 seconds used up" if time.monotonic() >= end else None,
            remaining=lambda: end - time.monotonic(),
        )
        with pytest.raises(BudgetSpentError, match="budget of 1 seconds used up"):
            ask(models)
        assert time.monotonic() - end < 20
    assert len(server.requests) == 1
    assert asked.told == []


def test_a_stream_is_left_when_the_time_of_the_run_is_over(tmp_path: Path) -> None:
    with OpenAIServer([Text("a tile of 64")]) as server:
        asked = Asked(tmp_path, server=server)
        models = asked.models(watch=True, late=lambda: "enough" if asked.watched else None)
        with pytest.raises(BudgetSpentError, match="enough"):
            ask(models)
    assert len(asked.watched) == 1


def test_a_reply_that_is_watched_comes_as_a_stream(tmp_path: Path) -> None:
    with OpenAIServer([Text("a tile of 64")]) as server:
        asked = Asked(tmp_path, server=server)
        assert ask(asked.models(watch=True), lane="2.1") == "a tile of 64"
    assert server.requests[0].body["stream"] is True
    counts = [characters for _, characters in asked.watched]
    assert counts == sorted(counts) and counts[0] == 3 and counts[-1] == 12
    assert {lane for lane, _ in asked.watched} == {"2.1"}
    (record,) = asked.records
    assert record["reply"]["finish_reason"] == "stop"
    assert record["reply"]["output_tokens"] == 3
    assert record["dollars"] > 0


def test_calls_of_tools_are_watched_too(tmp_path: Path) -> None:
    with OpenAIServer([Tools([("submit", {"kernel": "x" * 100})])] * 2) as server:
        asked = Asked(tmp_path, server=server)
        models = asked.models(watch=True)
        models.lm(REWRITE, "1.0")("hello")
        streamed = asked.watched[-1][1]
        asked.resumed().lm(REWRITE, "1.1")("hello")
    assert streamed == len('{"kernel": ""}') + 100
    first, whole = asked.records
    assert [request.body.get("stream") for request in server.requests] == [True, None]
    assert first["reply"] == whole["reply"]
    assert first["reply"]["tool_calls"] == [{"id": "call_0", "name": "submit", "arguments": {"kernel": "x" * 100}}]
    assert first["reply"]["finish_reason"] == "tool_call"


@pytest.mark.parametrize("step", [Cut("a tile of 64" * 9), Fail(429, "slow down", SOON), Fail(500, "no", SOON)])
def test_a_stream_that_breaks_is_asked_for_in_one_piece(tmp_path: Path, step: ScriptStep) -> None:
    with OpenAIServer([step, Text("whole")]) as server:
        asked = Asked(tmp_path, server=server)
        assert ask(asked.models(watch=True, retries=1)) == "whole"
    assert [request.body.get("stream") for request in server.requests] == [True, None]
    assert len(asked.told) == 1
    assert [record["reply"]["text"] for record in asked.records] == ["whole"]


def test_a_stream_that_ends_at_the_token_limit(tmp_path: Path) -> None:
    with OpenAIServer([Truncated("half of it")]) as server:
        asked = Asked(tmp_path, server=server)
        assert ask(asked.models(watch=True)) == "half of it"
    assert asked.records[0]["reply"]["finish_reason"] == "length"
