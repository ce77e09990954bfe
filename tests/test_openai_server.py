"""The scripted server against the clients that tests drive through it: openai, and DSPy's own engine."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from .openai_server import Cut, Empty, Fail, Hang, Malformed, OpenAIServer, Step, Text, Tools, Truncated

openai = pytest.importorskip("openai")
dspy = pytest.importorskip("dspy")

HELLO = [{"role": "user", "content": "hello"}]
CONTEXT = "This model's maximum context length is 8 tokens."


@pytest.fixture(autouse=True)
def packaged_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """DSPy fetches its price list from the network unless told to use the packaged one."""
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")


def client(server: OpenAIServer, **options: Any) -> Any:
    options = {"api_key": server.key, "max_retries": 0, **options}
    return openai.OpenAI(base_url=server.base_url, **options)


def complete(server: OpenAIServer, **options: Any) -> Any:
    return client(server).chat.completions.create(model="gpt-4o", messages=HELLO, **options)


def lm(server: OpenAIServer, model: str = "openai/gpt-4o", **options: Any) -> Any:
    options = {"api_base": server.base_url, "api_key": server.key, "cache": False, "num_retries": 0, **options}
    return dspy.LM(model, **options)


def request(text: str = "hello") -> Any:
    return dspy.lm15.Request(model="openai/gpt-4o", messages=(dspy.lm15.Message.user(text),))


def test_an_answer_and_what_was_asked() -> None:
    with OpenAIServer([Text("a tile of 64"), Text("never asked for")]) as server:
        reply = complete(server)
    assert reply.choices[0].message.content == "a tile of 64"
    assert reply.choices[0].finish_reason == "stop"
    prompt = -(-len(json.dumps(HELLO)) // 4)
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (prompt, 3)
    assert reply.usage.total_tokens == prompt + 3
    [asked] = server.requests
    assert asked.body["messages"] == HELLO
    assert asked.headers["authorization"] == f"Bearer {server.key}"
    assert server.unused() == [Text("never asked for")]
    assert server.errors == []


def test_tool_calls() -> None:
    with OpenAIServer([Tools([("evaluate", {"BLOCK": 64}), ("profile", "{not json")], content="see")]) as server:
        choice = complete(server).choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content == "see"
    first, second = choice.message.tool_calls
    assert (first.id, first.function.name, json.loads(first.function.arguments)) == (
        "call_0",
        "evaluate",
        {"BLOCK": 64},
    )
    assert (second.id, second.function.name, second.function.arguments) == ("call_1", "profile", "{not json")


def test_a_stream_of_text_comes_in_pieces_and_ends_with_the_usage() -> None:
    with OpenAIServer([Text("a tile of 64"), Text("again")]) as server:
        chunks = list(complete(server, stream=True, stream_options={"include_usage": True}))
        plain = list(complete(server, stream=True))
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert len(pieces) == 4 and "".join(pieces) == "a tile of 64"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 3
    assert all(chunk.usage is None for chunk in plain)


def test_a_stream_of_tool_calls_comes_in_pieces() -> None:
    with OpenAIServer([Tools([("evaluate", {"BLOCK": 64}), ("profile", {})])]) as server:
        chunks = list(complete(server, stream=True))
    calls: dict[int, tuple[str, list[str]]] = {}
    for chunk in chunks:
        for call in chunk.choices[0].delta.tool_calls or []:
            calls.setdefault(call.index, (call.function.name, []))[1].append(call.function.arguments)
    assert {index: (name, json.loads("".join(pieces))) for index, (name, pieces) in calls.items()} == {
        0: ("evaluate", {"BLOCK": 64}),
        1: ("profile", {}),
    }
    assert len(calls[0][1]) > 2
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_a_step_may_look_at_the_request() -> None:
    def answer(body: dict[str, Any]) -> Step:
        return Text("analysis" if "bottleneck" in body["messages"][-1]["content"] else "rewrite")

    with OpenAIServer([answer, answer]) as server:
        model = lm(server)
        assert model("name the bottleneck") == ["analysis"]
        assert model("now the kernel") == ["rewrite"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("step", "error", "code"),
    [
        (Fail(429, "slow down", code="rate_limit_exceeded"), "RateLimitError", "rate_limit_exceeded"),
        (Fail(400, CONTEXT, code="context_length_exceeded"), "BadRequestError", "context_length_exceeded"),
        (Fail(500, "broken"), "InternalServerError", None),
    ],
)
def test_failures_have_the_body_of_openai(step: Fail, error: str, code: str | None, stream: bool) -> None:
    with OpenAIServer([step]) as server, pytest.raises(getattr(openai, error)) as caught:
        complete(server, stream=stream)
    assert caught.value.status_code == step.status and caught.value.code == code
    assert caught.value.body["message"] == step.message


def test_a_wrong_key_is_refused_and_partly_repeated_and_takes_no_step() -> None:
    with OpenAIServer([Text("never")]) as server, pytest.raises(openai.AuthenticationError) as caught:
        client(server, api_key="sk-wrong-secret-tail").chat.completions.create(model="gpt-4o", messages=HELLO)
    assert caught.value.code == "invalid_api_key"
    assert "sk-wrong********tail" in str(caught.value) and "secret" not in str(caught.value)
    assert len(server.requests) == 1 and len(server.unused()) == 1


def test_models_are_listed_and_others_are_not_found() -> None:
    with OpenAIServer([Text("never")], models={"gpt-4o-mini"}) as server:
        assert [model.id for model in client(server).models.list()] == ["gpt-4o-mini"]
        with pytest.raises(openai.NotFoundError) as caught:
            complete(server)
    assert caught.value.code == "model_not_found"
    assert len(server.unused()) == 1


def test_a_script_that_is_used_up_or_raises_fails_and_is_seen() -> None:
    def broken(body: dict[str, Any]) -> Step:
        raise ValueError("no such prompt")

    with OpenAIServer([broken]) as server:
        for message in ("no such prompt", "used up"):
            with pytest.raises(openai.InternalServerError, match=message):
                complete(server)
    assert [error.split(":")[0] for error in server.errors] == ["request 1", "request 2"]


@pytest.mark.parametrize("step", [Fail(429, "slow", {"Retry-After": "0.2"}), Fail(500, "broken")])
def test_dspy_waits_and_tries_again(step: Fail) -> None:
    with OpenAIServer([step, Text("fine")]) as server:
        started = time.monotonic()
        assert lm(server, num_retries=1)("hello") == ["fine"]
    assert len(server.requests) == 2
    assert time.monotonic() - started >= float(step.headers.get("Retry-After", 1))


@pytest.mark.parametrize(
    ("step", "error", "message"),
    [
        (Fail(401, "no", code="invalid_api_key"), "LMAuthError", "no"),
        (Fail(404, "no such model", code="model_not_found"), "LMUnsupportedModelError", "no such model"),
        (Fail(400, CONTEXT, code="context_length_exceeded"), "ContextWindowExceededError", "maximum context length"),
        (Fail(400, "bad parameter"), "LMInvalidRequestError", "bad parameter"),
        (Fail(429, "slow down", code="rate_limit_exceeded"), "LMRateLimitError", "slow down"),
        (Fail(429, "no money", code="insufficient_quota"), "LMBillingError", "no money"),
        (Fail(500, "broken"), "LMServerError", "broken"),
        (Fail(503, "overloaded"), "LMServerError", "overloaded"),
        (Fail(504, "too slow"), "LMTimeoutError", "too slow"),
        (Hang(30), "LMTransportError", "read timed out"),  # not LMTimeoutError: that one is the server's own word
        (Cut("x" * 400), "LMTransportError", "connection closed"),
        (Malformed(b"<html>bad gateway</html>"), "LMProviderError", "is not JSON"),
        (Malformed(b"[]"), "LMUnexpectedError", "JSON object"),
    ],
)
def test_dspy_names_each_failure(step: Step, error: str, message: str) -> None:
    with OpenAIServer([step]) as server, pytest.raises(getattr(dspy.utils.exceptions, error), match=message) as caught:
        lm(server, timeout=0.3)(request())
    assert type(caught.value).__name__ == error
    assert server.unused() == [] and len(server.requests) == 1


def test_dspy_names_a_connection_that_is_refused() -> None:
    with socket.socket() as bound, OpenAIServer([]) as server:  # bound and not listening: nobody else can take the port
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(dspy.utils.exceptions.LMTransportError, match="refused"):
            lm(server, api_base=f"http://127.0.0.1:{bound.getsockname()[1]}/v1")("hello")


@pytest.mark.parametrize(
    ("step", "text", "finish"),
    [
        (Text("whole"), "whole", "stop"),
        (Truncated("half of"), "half of", "length"),
        (Empty(), "", "stop"),
        (Malformed(b"{}"), "", "stop"),
    ],
)
def test_dspy_takes_these_as_answers(step: Step, text: str, finish: str) -> None:
    with OpenAIServer([step]) as server:
        reply = lm(server)(request())
    assert (reply.text, reply.finish_reason) == (text, finish)


def test_dspy_reads_tool_calls_and_prices_the_call() -> None:
    with OpenAIServer([Tools([("evaluate", {"BLOCK": 64})])]) as server:
        model = lm(server)
        [part] = model(request()).message.parts
    assert (part.name, part.input) == ("evaluate", {"BLOCK": 64})
    assert model.history[-1]["usage"]["completion_tokens"] == 4
    assert model.history[-1]["cost"] > 0


def streamed(model: Any) -> Iterator[Any]:
    class Ask(dspy.Module):  # type: ignore[misc]
        def forward(self, prompt: str) -> Any:
            return dspy.Prediction(text=model(request(prompt)).text)

    return iter(dspy.streamify(Ask(), async_streaming=False)(prompt="hello"))


def test_dspy_streams_pieces_and_then_the_prediction() -> None:
    with OpenAIServer([Text("a tile of 64")]) as server:
        *chunks, last = streamed(lm(server))
    assert [chunk.choices[0].delta.content for chunk in chunks] == ["a t", "ile", " of", " 64", None]
    assert isinstance(last, dspy.Prediction) and last.text == "a tile of 64"
    assert server.requests[0].body["stream"] is True


def test_dspy_does_not_try_a_stream_again_that_has_shown_text() -> None:
    seen: list[Any] = []
    with OpenAIServer([Cut("a tile of 64"), Text("never")]) as server:
        with pytest.raises(dspy.utils.exceptions.LMTransportError, match="connection closed"):
            seen.extend(streamed(lm(server, num_retries=3)))
        assert server.unused() == [Text("never")]
    assert seen[0].choices[0].delta.content == "a t"
