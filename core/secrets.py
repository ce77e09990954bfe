"""Which environment variables hold what nobody else should see."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAMES = re.compile(r"(API_KEY|TOKEN|SECRET|SECRET_KEY|ACCESS_KEY|PASSWORD|CREDENTIALS?)$", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether a variable's name says that it holds a key, a token or a password."""
    return _NAMES.search(name) is not None


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment as foreign code may see it."""
    return {name: value for name, value in environment.items() if not is_secret(name)}
