"""Shortens untrusted text and errors to one line, writes numbers and sizes, identifies texts."""

from __future__ import annotations

import hashlib

from pydantic import ValidationError


def first_line(text: str | BaseException, limit: int | None = None) -> str:
    """Return the first line that is not blank, cut to `limit` characters; '' where there is none.

    An exception's line comes without its full stop, so that it fits into a sentence; one without a message gives its
    type's name.
    """
    line = next((line.strip() for line in str(text).splitlines() if line.strip()), "")
    if isinstance(text, BaseException):
        line = line.rstrip(".") or type(text).__name__
    return line if limit is None or len(line) <= limit else f"{line[: limit - 3]}..."


def wrong_field(error: ValidationError) -> str:
    """Return the first field that does not fit its record, and why: 'spec.language: Field required'."""
    first = error.errors()[0]
    reason = str(first["msg"]).removeprefix("Value error, ")
    return ": ".join(filter(None, [".".join(map(str, first["loc"])), reason]))


def gigabytes(size: int) -> str:
    """Return '12.9 GB' for that many bytes, and '0.031 GB' for few."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e9:.2g} GB"


def digits(value: float) -> str:
    """Return four digits, without an exponent."""
    return f"{float(f'{value:.4g}'):.12g}"


def digest_of(text: str) -> str:
    """Return sixteen hexadecimal digits that identify a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
