"""The transcript on disk, and what a resumed run recalls from it."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dspy
import pytest
from dspy import lm15
from kernelwright.agent.models.models import ANALYSE, Models
from kernelwright.agent.models.transcript import Transcript
from kernelwright.core import JournalError, read_journal

from ...openai_server import JSON, Fail, OpenAIServer, Text, Tools, Truncated
from .asking import MODEL, Asked, ask


def echo(body: JSON) -> Text:
    """Answers with what was asked."""
    return Text(f"reply to {body['messages'][-1]['content']}")


def recorded(folder: Path, *texts: str, lane: str = "1.0") -> Asked:
    """A run that was answered these texts' echoes, and has ended."""
    with OpenAIServer([echo] * len(texts)) as server:
        asked = Asked(folder, server=server)
        models = asked.models()
        for text in texts:
            ask(models, text, lane)
        asked.transcript.close()
    return asked


def test_an_exchange_is_on_disk_as_soon_as_it_is_over(tmp_path: Path) -> None:
    def look(body: JSON) -> Text:
        return Text(str(len(read_journal(tmp_path / "transcript.jsonl"))))

    with OpenAIServer([look, look]) as server:
        models = Asked(tmp_path, server=server).models()
        assert [ask(models, "first"), ask(models, "second")] == ["0", "1"]


def test_a_torn_last_line_is_cut_off_and_its_exchange_asked_again(tmp_path: Path) -> None:
    asked = recorded(tmp_path, "first", "second")
    whole = asked.path.read_bytes()
    asked.path.write_bytes(whole[:-40])
    with OpenAIServer([echo]) as server:
        models = Asked(tmp_path, server=server).models()
        assert ask(models, "first") == "reply to first"
        assert server.requests == []
        assert ask(models, "second") == "reply to second"
    assert [record["number"] for record in asked.records] == [1, 2]
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "damage",
    ["no json", "[]", '{"kind":"exchange"}', '{"kind":"exchange","lane":"1.0","reply":{"input_tokens":"many"}}'],
)
def test_a_corrupt_line_is_named(tmp_path: Path, damage: str) -> None:
    asked = recorded(tmp_path, "first", "second")
    first, second = asked.path.read_text().splitlines()
    asked.path.write_text(f"{first}\n{damage}\n{second}\n")
    with pytest.raises(JournalError, match=r"transcript.jsonl, line 2 .*fix or remove that line"):
        Transcript(asked.path)


def test_two_runs_cannot_write_the_same_transcript(tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    code = (
        f"from pathlib import Path; import kernelwright.agent.models.transcript as t; t.Transcript(Path({str(path)!r}))"
    )
    transcript = Transcript(path)
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "transcript.jsonl is in use by another run" in other.stderr
    transcript.close()
    Transcript(path).close()


def test_a_resumed_run_asks_nothing_twice(tmp_path: Path) -> None:
    recorded(tmp_path, "first", "second")
    with OpenAIServer([echo]) as server:
        asked = Asked(tmp_path, server=server)
        models = asked.models()
        assert [ask(models, text) for text in ("first", "second")] == ["reply to first", "reply to second"]
        assert server.requests == []
        assert ask(models, "third") == "reply to third"
    assert [record["number"] for record in asked.records] == [1, 2, 3]


def test_calls_of_tools_are_recalled_as_they_were(tmp_path: Path) -> None:
    with OpenAIServer([Tools([("tune", {"trials": 4, "space": {"B": [1, 2]}})], content="a thought")]) as server:
        asked = Asked(tmp_path, server=server)
        live = asked.models().lm(ANALYSE, "1.0")("hello")
        again = asked.resumed().lm(ANALYSE, "1.0")("hello")
    assert live == again
    assert json.loads(live[0]["tool_calls"][0]["function"]["arguments"]) == {"trials": 4, "space": {"B": [1, 2]}}


def test_why_a_reply_ended_and_its_tokens_are_recalled(tmp_path: Path) -> None:
    request = lm15.Request(model=MODEL, messages=(lm15.Message.user("hello"),))
    with OpenAIServer([Truncated("half of it")]) as server:
        asked = Asked(tmp_path, server=server)
        live = asked.models().lm(ANALYSE, "1.0")(request)
        again = asked.resumed().lm(ANALYSE, "1.0")(request)
    assert (again.text, again.finish_reason) == (live.text, live.finish_reason) == ("half of it", "length")
    assert again.usage.input_tokens == live.usage.input_tokens > 0
    assert again.usage.output_tokens == live.usage.output_tokens > 0


def test_the_same_request_twice_is_recalled_twice_and_no_more(tmp_path: Path) -> None:
    recorded(tmp_path, "same", "same")
    with OpenAIServer([Text("a third answer")]) as server:
        models = Asked(tmp_path, server=server).models()
        assert [ask(models, "same") for _ in range(3)] == ["reply to same", "reply to same", "a third answer"]


def test_a_request_that_differs_ends_the_recall_of_its_lane_only(tmp_path: Path) -> None:
    with OpenAIServer([echo] * 6) as server:
        asked = Asked(tmp_path, server=server)
        models = asked.models()
        for lane in ("1.0", "1.1"):
            for text in ("first", "second", "third"):
                ask(models, f"{text} of {lane}", lane)
    with OpenAIServer([echo] * 2) as server:
        asked.transcript.close()
        models = Asked(tmp_path, server=server).models()
        ask(models, "first of 1.0", "1.0")
        ask(models, "another", "1.0")
        ask(models, "second of 1.0", "1.0")
        for text in ("first", "second", "third"):
            assert ask(models, f"{text} of 1.1", "1.1") == f"reply to {text} of 1.1"
    assert [request.body["messages"][-1]["content"] for request in server.requests] == ["another", "second of 1.0"]


def test_what_failed_is_asked_again_and_what_followed_is_recalled(tmp_path: Path) -> None:
    too_long = Fail(400, "maximum context length is 8 tokens", code="context_length_exceeded")
    with OpenAIServer([too_long, echo]) as server:
        asked = Asked(tmp_path, server=server)
        models = asked.models()
        with pytest.raises(dspy.ContextWindowExceededError):
            ask(models, "long")
        ask(models, "short")
        asked.transcript.close()
    with OpenAIServer([too_long]) as server:
        models = Asked(tmp_path, server=server).models()
        with pytest.raises(dspy.ContextWindowExceededError):
            ask(models, "long")
        assert ask(models, "short") == "reply to short"
    assert len(server.requests) == 1


def test_what_failed_and_was_answered_later_is_recalled(tmp_path: Path) -> None:
    with OpenAIServer([Fail(401, "no"), echo]) as server:
        asked = Asked(tmp_path, server=server)
        with pytest.raises(dspy.LMAuthError):
            ask(asked.models(), "hello")
        assert ask(asked.resumed(), "hello") == "reply to hello"
        assert ask(asked.resumed(), "hello") == "reply to hello"
    assert len(server.requests) == 2
    assert ["error" in record for record in asked.records] == [True, False]


def test_lanes_side_by_side_are_recorded_and_recalled_each_in_its_order(tmp_path: Path) -> None:
    lanes = [f"1.{index}" for index in range(4)]

    def converse(models: Models) -> list[list[str]]:
        def one(lane: str) -> list[str]:
            return [ask(models, f"{step} in {lane}", lane) for step in range(5)]

        with ThreadPoolExecutor(len(lanes)) as pool:
            return list(pool.map(one, lanes))

    with OpenAIServer([echo] * 20) as server:
        asked = Asked(tmp_path, server=server)
        said = converse(asked.models())
        assert said == [[f"reply to {step} in {lane}" for step in range(5)] for lane in lanes]
        spent = asked.transcript.spent
        assert converse(asked.resumed()) == said
    assert len(server.requests) == 20
    assert asked.transcript.spent == spent
    assert [record["number"] for record in asked.records] == list(range(1, 21))
    for lane in lanes:
        steps = [r["reply"]["text"] for r in asked.records if r["lane"] == lane]
        assert steps == [f"reply to {step} in {lane}" for step in range(5)]
