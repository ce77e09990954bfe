"""An exchange with a model as plain data, and back: the readable content of a transcript."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from dspy import lm15

from ...core.exchange_record import Reply

Record = dict[str, Any]


def request_record(request: lm15.Request) -> Record:
    """Return the request as data: system text, messages, offered tools, and settings."""
    system = request.system
    config = request.config
    settings = {"temperature": config.temperature, "max_tokens": config.max_tokens}
    if config.tool_choice is not None:
        settings["tool_choice"] = str(config.tool_choice.mode)
    return {
        "system": system if isinstance(system, str) or system is None else "".join(_text(part) for part in system),
        "messages": [{"role": message.role, **_parts_record(message)} for message in request.messages],
        "tools": [tool.name for tool in request.tools],
        "settings": {name: value for name, value in settings.items() if value is not None},
    }


def digest(request: Record) -> str:
    """Return 16 hexadecimal digits that identify the request."""
    text = json.dumps(request, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def reply_record(response: lm15.Response) -> Record:
    """Return the reply as data: text, tool calls, finish reason, tokens."""
    usage = response.usage
    return {
        **_parts_record(response.message),
        "finish_reason": response.finish_reason,
        "input_tokens": usage.input_tokens or 0,
        "output_tokens": usage.output_tokens or 0,
    }


def response_of(reply: Reply, model: str) -> lm15.Response:
    """Return the response of a reply."""
    calls = [lm15.ToolCallPart(id=call.id, name=call.name, input=dict(call.arguments)) for call in reply.tool_calls]
    text = reply.text or ""
    parts = ([lm15.TextPart(text)] if text or not calls else []) + calls
    return lm15.Response(
        id=None,
        model=model,
        message=lm15.Message.assistant(parts),
        finish_reason=reply.finish_reason or ("tool_call" if calls else "stop"),
        usage=lm15.Usage(input_tokens=reply.input_tokens or 0, output_tokens=reply.output_tokens or 0),
    )


def _parts_record(message: lm15.Message) -> Record:
    found: Record = {}
    texts = [part.text for part in message.parts if part.type == "text"]
    if texts:
        found["text"] = "".join(texts)
    calls = [part for part in message.parts if part.type == "tool_call"]
    if calls:
        found["tool_calls"] = [{"id": call.id, "name": call.name, "arguments": dict(call.input)} for call in calls]
    results = [part for part in message.parts if part.type == "tool_result"]
    if results:
        found["tool_results"] = [
            {"id": part.id, "name": part.name, "text": "".join(_text(content) for content in part.content)}
            for part in results
        ]
    return found


def _text(part: Any) -> str:
    return str(getattr(part, "text", ""))
