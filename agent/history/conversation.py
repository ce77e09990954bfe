"""The exchanges with models as text that people read: `dspy_history_*.txt`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

_RULE = "=" * 100


def conversation_text(records: Iterable[Mapping[str, Any]]) -> str:
    """All exchanges of a transcript, in order: what was sent that the exchange before had not, and what came back."""
    shown: dict[str, list[Any]] = {}
    parts = []
    for record in records:
        if record.get("kind") != "exchange":
            continue
        reply, request = record.get("reply"), record["request"]
        cost = f"${record.get('dollars') or 0.0:.4f}"
        tokens = f"{reply['input_tokens']} + {reply['output_tokens']} tokens, " if reply else ""
        parts.append(
            f"{_RULE}\n{record['number']}. {record['purpose']} (conversation {record['lane']}), {record['model']}, "
            f"{record['at']}: {tokens}{cost}, {record['seconds']:.1f} s\n{_RULE}"
        )
        before = shown.get(record["lane"], [])
        sent = [{"role": "system", "text": request["system"]}, *request["messages"]]
        common = 0
        while common < min(len(before), len(sent)) and before[common] == sent[common]:
            common += 1
        shown[record["lane"]] = sent
        parts += [_message(message) for message in sent[common:]]
        parts.append(_message({"role": "reply", **reply}) if reply else f"--- error\n{record.get('error', '')}")
    return "\n\n".join(parts) + "\n"


def _message(message: Mapping[str, Any]) -> str:
    lines = [f"--- {message['role']}"]
    if message.get("text"):
        lines.append(str(message["text"]))
    for call in message.get("tool_calls", ()):
        arguments = {key: value for key, value in call["arguments"].items() if not _long(value)}
        lines.append(f"{call['name']}({json.dumps(arguments, ensure_ascii=False)})")
        lines += [f"  {key}:\n{value}" for key, value in call["arguments"].items() if _long(value)]
    lines += [f"{result['name']}: {result['text']}" for result in message.get("tool_results", ())]
    return "\n".join(lines)


def _long(value: Any) -> bool:
    return isinstance(value, str) and "\n" in value
