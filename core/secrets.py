"""Which environment variables contain secrets."""

from __future__ import annotations

import re

# Whole words between underscores, so that a MONKEY is not a key and TOKENIZERS are not tokens. MAX_TOKENS is a number.
_NAMES = re.compile(
    r"(^|_)(KEYS?|PAT|PASS|PASSPHRASE|AUTH)\d*(_|$)|(TOKEN|SECRETS?|PASSWORD|PASSWD|APIKEY|CREDENTIALS?)\d*(_|$)",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Return whether a variable's name indicates a key, a token or a password."""
    return _NAMES.search(name) is not None
