"""Which environment variables contain secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Whole words between underscores, so that a MONKEY is no key and TOKENIZERS are no tokens. MAX_TOKENS is a number.
_NAMES = re.compile(
    r"(^|_)(KEYS?|PAT|PASS|PASSPHRASE|AUTH)\d*(_|$)|(TOKEN|SECRETS?|PASSWORD|PASSWD|APIKEY|CREDENTIALS?)\d*(_|$)",
    re.IGNORECASE,
)
_IN_VALUE = re.compile(r"://[^/@\s]+:[^/@\s]+@")
"""A user and a password in an address, as of a proxy or an index."""


def is_secret(name: str) -> bool:
    """Return whether a variable's name indicates a key, a token or a password."""
    return _NAMES.search(name) is not None


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without secrets, for untrusted code."""
    return {name: value for name, value in environment.items() if not is_secret(name) and not _IN_VALUE.search(value)}
