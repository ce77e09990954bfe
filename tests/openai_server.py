"""A local server that speaks the OpenAI chat protocol and answers from a script.

The client under test is the real one: sockets, retries, stream parsing and error mapping all run. Only the model is
made up. Each accepted request takes the next step of the script; requests without the right key or with an unknown
model are refused and take none.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

JSON = dict[str, Any]
KEY = "sk-test-0123456789abcdef"
JSON_BODY = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Text:
    """A whole answer."""

    content: str | None
    finish = "stop"


class Truncated(Text):
    """An answer that ended at the token limit."""

    finish = "length"


class Cut(Text):
    """An answer of which half arrives before the connection closes."""


@dataclass(frozen=True)
class Empty(Text):
    """An answer without content."""

    content: str | None = None


@dataclass(frozen=True)
class Tools:
    """Calls of tools as (name, arguments); a string goes out as it is, so that it may be invalid JSON."""

    calls: Sequence[tuple[str, Mapping[str, Any] | str]]
    content: str | None = None
    finish = "tool_calls"


@dataclass(frozen=True)
class Malformed:
    """Status 200 with this body."""

    raw: bytes


@dataclass(frozen=True)
class Fail:
    """An HTTP error with OpenAI's error body."""

    status: int
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)
    code: str | None = None


@dataclass(frozen=True)
class Hang:
    """Silence for so many seconds (or until the server stops), then a closed connection."""

    seconds: float


Step = Text | Tools | Malformed | Fail | Hang
ScriptStep = Step | Callable[[JSON], Step]


@dataclass(frozen=True)
class Recorded:
    """One request for a completion; header names in lower case."""

    headers: Mapping[str, str]
    body: JSON


class OpenAIServer(ThreadingHTTPServer):
    """Answers `script` step by step; a step may be a function from the request's body to the step.

    `models` are the known ones; None knows any. `requests` holds every request for a completion in order, refused ones
    too. `errors` holds the test's own mistakes, answered with 500: a request after the last step, a step that raised.
    """

    def __init__(self, script: Sequence[ScriptStep], key: str = KEY, models: Collection[str] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.key, self.models = key, models
        self.requests: list[Recorded] = []
        self.errors: list[str] = []
        self.stopping = threading.Event()
        self._unused = list(script)
        self._lock = threading.Lock()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def unused(self) -> list[ScriptStep]:
        return list(self._unused)

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.shutdown()
        self.server_close()

    def take(self, body: JSON) -> Step:
        try:
            with self._lock:
                if not self._unused:
                    raise IndexError("the script is used up and another request came")
                step = self._unused.pop(0)
            return step(body) if callable(step) else step
        except Exception as error:  # a handler's thread must not swallow it: the test reads `errors`
            self.errors.append(f"request {len(self.requests)}: {error}")
            return Fail(500, self.errors[-1])


class _Handler(BaseHTTPRequestHandler):
    server: OpenAIServer
    protocol_version = "HTTP/1.1"  # keep-alive and chunked bodies, as the real service

    def do_GET(self) -> None:
        names = sorted(self.server.models or ())
        listing = {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}
        self._play(self._refusal("/v1/models") or Malformed(json.dumps(listing).encode()), {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(Recorded({name.lower(): value for name, value in self.headers.items()}, body))
        self._play(self._refusal("/v1/chat/completions", body.get("model")) or self.server.take(body), body)

    def _refusal(self, path: str, model: str | None = None) -> Fail | None:
        key, models = self.headers.get("Authorization", "").removeprefix("Bearer "), self.server.models
        if self.path != path:
            return Fail(404, f"Invalid URL ({self.command} {self.path})")
        if key != self.server.key:  # OpenAI repeats the head and the tail of the key
            return Fail(401, f"Incorrect API key provided: {key[:8]}********{key[-4:]}.", code="invalid_api_key")
        if model is not None and models is not None and model not in models:
            return Fail(404, f"The model `{model}` does not exist.", code="model_not_found")
        return None

    def _play(self, step: Step, body: JSON) -> None:
        match step:
            case Hang(seconds):
                self.server.stopping.wait(seconds)
                self.close_connection = True
            case Fail(status, message, headers, code):
                kind = "server_error" if status >= 500 else "requests" if status == 429 else "invalid_request_error"
                error = {"message": message, "type": kind, "param": None, "code": code}
                self._send(status, {**JSON_BODY, **headers}, [json.dumps({"error": error}).encode()])
            case Malformed(raw):
                self._send(200, JSON_BODY, [raw] if raw else [])
            case Text() | Tools() if body.get("stream"):
                events = [f"data: {line}\n\n".encode() for line in [*map(json.dumps, _chunks(step, body)), "[DONE]"]]
                self._send(200, {"Content-Type": "text/event-stream"}, events, cut=isinstance(step, Cut))
            case Text() | Tools():
                choice = {"index": 0, "message": _message(step), "finish_reason": step.finish}
                whole = _envelope("chat.completion", body, [choice]) | _usage(body, _message(step))
                pieces = [piece.encode() for piece in _pieces(json.dumps(whole))]
                self._send(200, JSON_BODY, pieces, cut=isinstance(step, Cut))

    def _send(self, status: int, headers: Mapping[str, str], pieces: Sequence[bytes], cut: bool = False) -> None:
        self.send_response(status)
        for name, value in {"Transfer-Encoding": "chunked", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        for piece in pieces[: len(pieces) // 2] if cut else [*pieces, b""]:  # an empty chunk ends the body
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.close_connection |= cut

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the test's output stays the test's."""


def _message(step: Text | Tools) -> JSON:
    message: JSON = {"role": "assistant", "content": step.content}
    for i, (name, given) in enumerate(step.calls if isinstance(step, Tools) else ()):
        function = {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)}
        message.setdefault("tool_calls", []).append({"id": f"call_{i}", "type": "function", "function": function})
    return message


def _envelope(kind: str, body: JSON, choices: list[JSON]) -> JSON:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": body["model"], "choices": choices}


def _usage(body: JSON, message: JSON) -> JSON:
    """Four characters to a token."""
    answer = (message["content"] or "") + "".join(c["function"]["arguments"] for c in message.get("tool_calls", ()))
    prompt, completion = -(-len(json.dumps(body["messages"])) // 4), -(-len(answer) // 4)
    total = prompt + completion
    return {"usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}}


def _chunks(step: Text | Tools, body: JSON) -> Iterator[JSON]:
    """A completion as a stream: role, pieces of the content, pieces of each tool call, finish, usage."""
    kind, message = "chat.completion.chunk", _message(step)
    deltas: list[JSON] = [{"role": "assistant"}, *({"content": piece} for piece in _pieces(message["content"] or ""))]
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        changes = [{**call, "function": {**function, "arguments": ""}}]
        changes += [{"function": {"arguments": piece}} for piece in _pieces(function["arguments"])]
        deltas += [{"tool_calls": [{"index": index, **change}]} for change in changes]
    for delta, reason in [*((delta, None) for delta in deltas), ({}, step.finish)]:
        yield _envelope(kind, body, [{"index": 0, "delta": delta, "finish_reason": reason}])
    if body.get("stream_options", {}).get("include_usage"):
        yield _envelope(kind, body, []) | _usage(body, message)


def _pieces(text: str) -> list[str]:
    size = max(1, -(-len(text) // 4))
    return [text[start : start + size] for start in range(0, len(text), size)]
