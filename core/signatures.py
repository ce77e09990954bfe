"""Signatures of journals, which show that runs of this user wrote them. Each line is signed with all lines before it.

Files of a project, including journals, may come from someone else. The key is in the user's state folder and readable
by that user only, so nobody else can write or change a valid line.
"""

from __future__ import annotations

import contextlib
import functools
import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .files import state_folder

SIGNED = "signed"
"""The field of a line that holds its signature."""
KEY_BYTES = 32


def signature(said: dict[str, Any], before: str, key: bytes) -> str:
    """Return the signature of a line. `before` is the signature of the previous line, '' for the first line."""
    content = {name: value for name, value in said.items() if name != SIGNED}
    text = json.dumps(json.loads(json.dumps(content)), sort_keys=True, separators=(",", ":"))
    return hmac.digest(key, f"{before}\n{text}".encode(), "sha256").hex()


def last_signature(lines: Iterable[dict[str, Any]], key: bytes) -> str | None:
    """Return the last line's signature, '' without lines; None if a line was not signed with this key."""
    last = ""
    for said in lines:
        found, last = said.get(SIGNED), signature(said, last, key)
        if not isinstance(found, str) or not hmac.compare_digest(found.encode(), last.encode()):
            return None
    return last


def own_key() -> bytes:
    """Return this user's key, created on first use. If it cannot be stored, it is valid for this process only."""
    return _key(state_folder() / "journals.key")


@functools.cache
def _key(path: Path) -> bytes:
    for _ in range(2):
        if (key := _kept(path)) is not None:
            return key
        with contextlib.suppress(OSError):
            _make(path)
    return secrets.token_bytes(KEY_BYTES)


def _kept(path: Path) -> bytes | None:
    """Return the key in a file that only this user can read; None for any other file."""
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            private = about.st_uid == os.geteuid() and not about.st_mode & 0o077
            key = file.read()
    except OSError:
        return None
    return key if private and len(key) == KEY_BYTES else None


def _make(path: Path) -> None:
    """Write a key atomically, replacing an invalid file. If two processes race, the first one wins."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, part = tempfile.mkstemp(dir=path.parent)  # which only this user can read
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        if path.exists() and _kept(path) is None:
            path.unlink()
        os.link(part, path)
    finally:
        Path(part).unlink()
