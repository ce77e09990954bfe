"""Masks keys, which must not reach a log, a journal or an error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...core.secrets import is_secret

MASK = "[key]"
_SHAPES = re.compile(
    r"\b(?:sk|pk|xai|gsk|hf|gh[opsu])[-_][\w*.\-]{8,}"
    r"|\bAIza[\w\-]{16,}"
    r"|\bBearer\s+[\w.\-]{8,}"
    r"|[\w.\-]*\*{3,}[\w.\-]*"  # a server may repeat a key with stars in its middle
)


class Redactor:
    """Masks the secrets of an environment, and in messages everything that looks like a key."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        values = {value for name, value in environment.items() if is_secret(name) and len(value) >= 6}
        self._longest_first = sorted(values, key=len, reverse=True)

    def __call__(self, message: str) -> str:
        """Mask a message of a server or client, which may contain a part of a key, or another key."""
        return _SHAPES.sub(MASK, self._without_values(message))

    def record(self, value: Any) -> Any:
        """Return the data without the environment's secrets. Shapes are kept: kernels have names such as
        `sk_offsets`."""
        match value:
            case str():
                return self._without_values(value)
            case dict():
                return {name: self.record(item) for name, item in value.items()}
            case list() | tuple():
                return [self.record(item) for item in value]
        return value

    def _without_values(self, text: str) -> str:
        for value in self._longest_first:
            text = text.replace(value, MASK)
        return text
