"""The exchanges with models as text that people read."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelwright.agent.history.records import conversation_text
from kernelwright.agent.program.proposer import ModelProposer
from kernelwright.agent.proposer import RunEndedError
from kernelwright.core import ExchangeRecord, RunRecord, read_journal

from ...openai_server import Fail, OpenAIServer
from ..conversations.telling import submit, use
from ..program.stand import native, source, stand, textual


def exchange(number: int, *messages: dict[str, object], lane: str = "1.0", **outcome: object) -> ExchangeRecord:
    reply = {"text": f"reply {number}", "input_tokens": 10, "output_tokens": 2}
    said = {
        "number": number,
        "lane": lane,
        "purpose": "rewrite",
        "model": "openai/o3",
        "at": "2000-01-01T00:00:00+00:00",
        "request": {"system": "Be quick.", "messages": list(messages)},
        "seconds": 1.25,
        **(outcome or {"reply": reply, "dollars": 0.5}),
    }
    return ExchangeRecord.model_validate(said)


USER = {"role": "user", "text": "Make it fast."}
CALL = {
    "role": "assistant",
    "tool_calls": [{"id": "1", "name": "tune", "arguments": {"trials": 4, "kernel": "a = 1\nb = 2"}}],
}
RESULT = {"role": "tool", "tool_results": [{"id": "1", "name": "tune", "text": '{"config": {}}'}]}


def test_an_exchange_is_shown_with_its_cost() -> None:
    text = conversation_text([exchange(1, USER)])
    rule = "=" * 100
    assert text == (
        f"{rule}\n1. rewrite (conversation 1.0), openai/o3, 2000-01-01T00:00:00+00:00: 10 + 2 tokens, $0.5000, 1.2 s\n"
        f"{rule}\n\n--- system\nBe quick.\n\n--- user\nMake it fast.\n\n--- reply\nreply 1\n"
    )


def test_what_was_sent_before_is_not_shown_again() -> None:
    first = exchange(1, USER, reply={"tool_calls": CALL["tool_calls"], "input_tokens": 10, "output_tokens": 2})
    text = conversation_text([first, exchange(2, USER, CALL, RESULT)])
    assert text.count("Be quick.") == text.count("Make it fast.") == 1
    assert text.count('--- reply\ntune({"trials": 4})\n  kernel:\na = 1\nb = 2\n') == text.count("tune(") == 1
    assert '--- tool\ntune: {"config": {}}\n' in text
    assert text.index("tune(") < text.index("--- tool") < text.index("reply 2")


def test_from_the_first_difference_on_everything_is_shown() -> None:
    other = {"role": "user", "text": "Make it right."}
    text = conversation_text([exchange(1, USER, RESULT), exchange(2, other, RESULT)])
    assert text.count("Be quick.") == 1
    assert text.count("Make it right.") == 1
    assert text.count('tune: {"config": {}}') == 2


def test_each_lane_is_a_conversation_of_its_own() -> None:
    text = conversation_text([exchange(1, USER), exchange(2, USER, lane="1.1"), exchange(3, USER, lane="1.1")])
    assert text.count("Make it fast.") == 2


def test_an_error_is_shown_in_place_of_the_reply() -> None:
    text = conversation_text([exchange(1, USER, error="LMServerError: oops")])
    assert ": $0.0000, 1.2 s\n" in text
    assert text.endswith("--- error\nLMServerError: oops\n")


def test_other_records_are_passed_over() -> None:
    assert conversation_text([RunRecord()]) == "\n"


def test_a_real_conversation_is_readable(tmp_path: Path) -> None:
    here = stand(tmp_path)
    with OpenAIServer([use("profile"), Fail(500, "oops")]) as server:
        models = native(tmp_path, server)
        with pytest.raises(RunEndedError, match="the server of openai/gpt-4o failed"):
            ModelProposer(models, here.heard).propose(here.context)
        text = conversation_text(read_journal(models.transcript.path))
    assert text.count("# Contract") == 1
    assert "profile({})" in text
    assert "--- error\nLMServerError: " in text


def test_a_conversation_in_text_is_readable(tmp_path: Path) -> None:
    here = stand(tmp_path)
    models = textual(tmp_path, [use("profile"), submit(source(5.0), "s", "r")])
    ModelProposer(models, here.heard).propose(here.context)
    text = conversation_text(read_journal(models.transcript.path))
    assert text.count("# Contract") == 1
    assert text.count("You make a tilelang kernel faster") == 1
