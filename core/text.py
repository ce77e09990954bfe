"""Shortens untrusted text and errors to one line, says what is wrong with a file, writes numbers, identifies texts."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from json import JSONDecodeError
from pathlib import Path

from pydantic import ValidationError

from .errors import KernelwrightError
from .quotation import plain

BAD_DATA = (
    OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, EOFError, MemoryError,
)  # fmt: skip
"""Exceptions of readers for files that have another format, are damaged or malicious."""
LONGEST = 300
"""Characters of a reason."""


def first_line(text: str | BaseException, limit: int | None = None) -> str:
    """Return the first non-blank line, cut to `limit` characters; '' if there is none.

    The line of an exception has no full stop, so that it fits into a sentence. An exception without a message gives the
    name of its type.
    """
    line = next((line.strip() for line in str(text).splitlines() if line.strip()), "")
    if isinstance(text, BaseException):
        line = line.rstrip(".") or type(text).__name__
    return line if limit is None or len(line) <= limit else f"{line[: limit - 3]}..."


def listed(names: Iterable[str], word: str) -> str:
    """Join names in a sentence: 'api_base, model and sandbox'."""
    *others, last = names
    return f"{', '.join(others)} {word} {last}" if others else last


def wrong_field(error: ValidationError) -> str:
    """Return the first invalid field of a record and the reason: 'spec.language: Field required'."""
    first = error.errors()[0]
    reason = str(first["msg"]).removeprefix("Value error, ")
    return ": ".join(filter(None, [".".join(map(str, first["loc"])), reason]))


def gigabytes(size: int) -> str:
    """Format a number of bytes: '12.9 GB', '0.031 GB'."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e9:.2g} GB"


def digits(value: float) -> str:
    """Format a number with four digits and no exponent."""
    return f"{float(f'{value:.4g}'):.12g}"


def digest_of(text: str) -> str:
    """Return the digest of a text, sixteen hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@contextlib.contextmanager
def data_of(path: Path, raises: type[KernelwrightError], hint: str = "", what: str = "") -> Iterator[None]:
    """Raise `raises` with the file, the place and the reason for whatever fails within because of a file's content.

    `what` says what the file should be: 'is not valid YAML'.
    """
    try:
        yield
    except KernelwrightError:
        raise
    except Exception as error:
        if not isinstance(error, BAD_DATA) and not _is_yaml(error):
            raise
        raise raises(data_problem(path, error, what), hint) from None


def data_problem(path: Path, error: Exception, what: str = "") -> str:
    """Return the line: 'cannot read a.json: Permission denied', 'a.json, line 3: no valid JSON: ...'."""
    if isinstance(error, OSError) and error.strerror:
        return f"cannot read {path}: {error.strerror}"
    head = " ".join(filter(None, [f"{path}{_place(error)}", what]))
    return f"{head}: {first_line(plain(_reason(error)), LONGEST)}"


def _place(error: Exception) -> str:
    if isinstance(error, JSONDecodeError):
        return f", line {error.lineno}"
    if isinstance(error, UnicodeDecodeError):
        return f", byte {error.start}"
    mark = getattr(error, "problem_mark", None)
    return f", line {mark.line + 1}" if mark is not None else ""


def _reason(error: Exception) -> str:
    match error:
        case ValidationError():
            return wrong_field(error)
        case JSONDecodeError():
            return error.msg
        case UnicodeDecodeError():
            return "it is not text"
        case RecursionError():
            return "it is nested too deeply"
        case MemoryError():
            return "it is too large"
        case KeyError():
            return f"{error} is missing"
        case TypeError() | AttributeError() | IndexError():
            return f"it has another form ({first_line(error)})"
    if _is_yaml(error):
        return getattr(error, "problem", None) or str(error)
    return str(error) or type(error).__name__


def _is_yaml(error: Exception) -> bool:
    """Return whether it is one of PyYAML's, which are not `ValueError`; it is not imported for this."""
    return type(error).__module__.partition(".")[0] == "yaml"
