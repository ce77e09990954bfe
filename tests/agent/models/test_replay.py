"""``model` replay:FILE` answers from a recording, and asks nobody."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kernelwright.agent.models.choice import parse
from kernelwright.agent.models.engines import NothingRecordedError
from kernelwright.agent.models.models import ANALYSE, REWRITE
from kernelwright.core import Budget, ModelError

from ...openai_server import OpenAIServer, Text, Tools
from .asking import Asked, ask


def write(folder: Path, *records: dict[str, Any]) -> str:
    """The choice that names a recording of these."""
    path = folder / "recorded.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return f"replay:{path}"


def said(text: str, **fields: Any) -> dict[str, Any]:
    return {"reply": {"text": text}, **fields}


def test_a_recorded_run_is_repeated_without_a_server(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    steps = [Text("memory"), Tools([("tune", {"trials": 4})], content="a thought"), Text("kernel")]
    with OpenAIServer([Text("ready"), *steps]) as server:
        live = Asked(tmp_path / "live", server=server)
        models = live.models()
        models.check()
        replies = [models.lm(purpose, "1.0")("hello") for purpose in (ANALYSE, REWRITE, REWRITE)]
        live.transcript.close()
    again = Asked(tmp_path, f"replay:{live.path}")
    models = again.models(environment={})
    models.check()
    assert [models.lm(purpose, "1.0")("hello") for purpose in (ANALYSE, REWRITE, REWRITE)] == replies
    assert replies[1][0]["tool_calls"][0]["function"]["arguments"] == '{"trials": 4}'
    assert [record["reply"] for record in again.records] == [record["reply"] for record in live.records[1:]]
    assert [record["dollars"] for record in again.records] == [record["dollars"] for record in live.records[1:]]
    assert [record["model"] for record in again.records] == ["kernelwright/replay"] * 3


def test_tools_are_offered_natively_where_the_recorded_model_called_them(tmp_path: Path) -> None:
    call = {"reply": {"tool_calls": [{"id": "1", "name": "tune", "arguments": {}}]}}
    with_calls = Asked(tmp_path, write(tmp_path, said("ready"), call)).models()
    assert with_calls.lm(REWRITE, "1.0").supports_function_calling
    without = Asked(tmp_path / "2", write(tmp_path, said("ready"))).models()
    assert not without.lm(REWRITE, "1.0").supports_function_calling


def test_each_lane_and_purpose_is_answered_in_its_order(tmp_path: Path) -> None:
    recording = write(
        tmp_path,
        said("a1", lane="1.0", purpose="analyse"),
        said("r1", lane="1.0", purpose="rewrite"),
        said("other", lane="1.1", purpose="rewrite"),
        said("r2", lane="1.0", purpose="rewrite"),
    )
    models = Asked(tmp_path, recording).models()
    assert ask(models, lane="1.1") == "other"
    assert ask(models, lane="1.0") == "r1"
    assert ask(models, lane="1.0", purpose=ANALYSE) == "a1"
    assert ask(models, lane="1.0") == "r2"


def test_an_edited_request_does_not_matter(tmp_path: Path) -> None:
    recording = write(tmp_path, said("fine", lane="1.0", digest="0" * 16, request={"system": "of another version"}))
    assert ask(Asked(tmp_path, recording).models(), "a new prompt") == "fine"


def test_a_reply_without_a_lane_serves_whoever_asks_first(tmp_path: Path) -> None:
    models = Asked(tmp_path, write(tmp_path, *(said(str(number)) for number in range(20)))).models()
    assert [ask(models, lane=lane) for lane in ("1.0", "1.1", "1.0")] == ["0", "1", "2"]
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda index: ask(models, lane=f"2.{index}"), range(17)))
    assert sorted(taken, key=int) == [str(number) for number in range(3, 20)]


def test_what_is_used_up_is_reported(tmp_path: Path) -> None:
    asked = Asked(tmp_path, write(tmp_path, said("first", lane="1.0")))
    models = asked.models()
    ask(models)
    with pytest.raises(NothingRecordedError) as caught:
        ask(models)
    assert models.explain(caught.value) == (
        f"{tmp_path}/recorded.jsonl contains no further reply for conversation 1.0 (rewrite)"
    )
    with pytest.raises(NothingRecordedError, match=r"for conversation 1\.1"):
        ask(models, lane="1.1")
    assert len(asked.records) == 1


@pytest.mark.parametrize(
    "reply",
    [
        {"tool_calls": [{"name": "tune"}]},
        {"tool_calls": "tune"},
        {"tool_calls": [{"id": "1", "name": "tune", "arguments": "x"}]},
        {"text": "x", "input_tokens": "many"},
        {"text": 5},
    ],
)
def test_a_damaged_reply_is_named_at_once(tmp_path: Path, reply: dict[str, Any]) -> None:
    asked = Asked(tmp_path, write(tmp_path, said("first"), {"number": 7, "reply": reply}))
    with pytest.raises(
        ModelError, match=r"recorded.jsonl, line 2 is not a valid exchange: reply\..*; fix or remove that"
    ):
        asked.models()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "contains no recorded replies; give the transcript.jsonl of a run with a model"),
        ('{"kind":"exchange","error":"LMAuthError: no"}\n', "contains no recorded replies"),
        ('{"reply":"a text"}\n', "contains no recorded replies"),
        ("no json\n{}\n", "line 1 is corrupt; fix or remove that line"),
    ],
)
def test_a_file_that_is_no_recording_is_refused_at_once(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "recorded.jsonl"
    path.write_text(content)
    with pytest.raises(ModelError, match=told):
        Asked(tmp_path, f"replay:{path}").models()


def test_a_recording_that_was_removed_is_reported(tmp_path: Path) -> None:
    asked = Asked(tmp_path, write(tmp_path, said("first")))
    (tmp_path / "recorded.jsonl").unlink()
    with pytest.raises(ModelError, match=r"cannot read .* No such file or directory; give the transcript"):
        asked.models()


def test_a_resumed_replay_goes_on_where_it_stopped(tmp_path: Path) -> None:
    asked = Asked(tmp_path, write(tmp_path, said("1", lane="1.0"), said("2"), said("3", lane="1.0")))
    models = asked.models()
    assert [ask(models, text) for text in ("first", "second")] == ["1", "2"]
    resumed = asked.resumed()
    assert [ask(resumed, text) for text in ("first", "second", "third")] == ["1", "2", "3"]
    assert len(asked.records) == 3


def test_recorded_analyses_serve_a_model_that_rewrites(tmp_path: Path) -> None:
    recording = write(
        tmp_path, said("memory", lane="1.0", purpose="analyse"), said("no", lane="1.0", purpose="rewrite")
    )
    with OpenAIServer([Text("kernel")]) as server:
        models = Asked(tmp_path, server=server, analysis=parse(recording)).models()
        assert [ask(models, purpose=purpose) for purpose in (ANALYSE, REWRITE)] == ["memory", "kernel"]


def test_recorded_tokens_count_towards_a_budget(tmp_path: Path) -> None:
    reply = {"reply": {"text": "x", "input_tokens": 10, "output_tokens": 5}, "dollars": 0.25}
    models = Asked(tmp_path, write(tmp_path, reply, reply), budget=Budget(dollars=0.5)).models()
    ask(models)
    assert models.transcript.spent == Budget(tokens=15, dollars=0.25)
