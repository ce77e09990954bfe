"""What a tool tells a model: a few named fields, with code in its own lines, since JSON would escape every line end."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_FIELD = re.compile(r"^<(\w+)>(.*?)</\1>$", re.MULTILINE | re.DOTALL)


def told(fields: Mapping[str, Any]) -> str:
    """`<result>right: 5 ms</result>` and so on, one below the other; what is no text is written as JSON."""
    parts = []
    for name, value in fields.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        parts.append(f"<{name}>\n{text}\n</{name}>" if "\n" in text else f"<{name}>{text}</{name}>")
    return "\n".join(parts)


def fields(text: str) -> dict[str, str]:
    """The fields of an answer; empty for a text that is none."""
    return {name: value.strip("\n") for name, value in _FIELD.findall(text)}
