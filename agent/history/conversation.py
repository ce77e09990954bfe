"""The exchanges with models as text that people read: `dspy_history_*.txt`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ...core import ExchangeRecord, Record
from ...core.exchange_record import Message, Reply
from ...core.journal import of
from .records import Conversations, Exchange

_RULE = "=" * 100


def conversation_text(records: Iterable[Record]) -> str:
    """All exchanges of a transcript, in order: what was sent that the exchange before had not, and what came back."""
    conversations = Conversations()
    exchanges = [conversations.read(record) for record in of(records, ExchangeRecord)]
    return "\n\n".join(part for exchange in exchanges for part in _parts(exchange)) + "\n"


def _parts(exchange: Exchange) -> list[str]:
    tokens = f"{exchange.input_tokens} + {exchange.output_tokens} tokens, " if exchange.reply else ""
    head = (
        f"{exchange.number}. {exchange.purpose} (conversation {exchange.lane}), {exchange.model}, "
        f"{exchange.at}: {tokens}${exchange.dollars:.4f}, {exchange.seconds:.1f} s"
    )
    end = _message("reply", exchange.reply) if exchange.reply else f"--- error\n{exchange.error}"
    return [f"{_RULE}\n{head}\n{_RULE}", *(_message(message.role, message) for message in exchange.sent), end]


def _message(title: str, message: Message | Reply) -> str:
    lines = [f"--- {title}"]
    if message.text:
        lines.append(message.text)
    for call in message.tool_calls:
        arguments = {key: value for key, value in call.arguments.items() if not is_long(value)}
        lines.append(f"{call.name}({json.dumps(arguments, ensure_ascii=False)})")
        lines += [f"  {key}:\n{value}" for key, value in call.arguments.items() if is_long(value)]
    lines += [f"{result.name}: {result.text}" for result in message.tool_results]
    return "\n".join(lines)


def is_long(value: Any) -> bool:
    """Return whether a tool's argument is a text of several lines, such as a kernel."""
    return isinstance(value, str) and "\n" in value
