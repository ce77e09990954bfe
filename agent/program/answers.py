"""A tool's response for a model: named fields, with code on its own lines, since JSON would escape every line end."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_FIELD = re.compile(r"^<(\w+)>(.*?)</\1>$", re.MULTILINE | re.DOTALL)


def response_text(fields: Mapping[str, Any]) -> str:
    """Return `<result>correct: 5 ms</result>` and so on, one per line; values other than text are written as JSON."""
    parts = []
    for name, value in fields.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        parts.append(f"<{name}>\n{text}\n</{name}>" if "\n" in text else f"<{name}>{text}</{name}>")
    return "\n".join(parts)


def fields(text: str) -> dict[str, str]:
    """Return the fields of a response; empty for any other text."""
    return {name: value.strip("\n") for name, value in _FIELD.findall(text)}
