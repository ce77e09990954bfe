"""Detects the format of a recorded search from its content: CSV, journal, Kernel Tuner cache or T4 results."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from ..core import Config, JournalError, OptionError, Record, Trial
from ..core.journal import parse_journal
from .files import read_recorded
from .kernel_tuner import load_json, parse_cache, parse_t4, write_t4
from .recording import RecordedResult, Recording, Results
from .search import FINAL
from .table import parse_csv, write_csv

__all__ = ["read_recording", "write_csv", "write_t4"]


def read_recording(path: Path, kernel: str | None = None) -> Recording:
    """Return the recording in a file, plain or gzipped.

    `kernel` is the digest, or its beginning, of one kernel in a journal with several. Raises `OptionError` for a file
    that cannot be read or has an unknown format, `JournalError` for a damaged journal, and `SpaceError` for entries
    that make no recording; the message names the file and the line.
    """
    data = read_recorded(path)
    if not data.strip():
        raise OptionError(f"{path} is empty; give a recording: CSV, journal, Kernel Tuner cache or T4 results")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OptionError(f"{path} is not text (byte {error.start}); give a CSV, a journal or a JSON file") from None
    if _is_journal(text):
        recording = _journal(parse_journal(data, path), path, kernel)
    elif kernel is not None:
        raise OptionError(f"{path} is not a journal, so it holds one kernel only; leave out the digest")
    else:
        recording = Recording(_parse(text, path), str(path))
    # Fail now rather than in the middle of a search if the configs make no space.
    _ = recording.space
    return recording


def _parse(text: str, path: Path) -> Results:
    if text.lstrip()[0] not in "{[":
        return parse_csv(text, path)
    try:
        document = load_json(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{path} is not valid JSON: {error}; give it whole, or as a CSV") from None
    if isinstance(document, dict) and {"tune_params_keys", "cache"} <= set(document):
        return parse_cache(document, path)
    if isinstance(document, dict) and isinstance(document.get("results"), list):
        return parse_t4(document, path)
    raise OptionError(
        f"{path} is not a recording: its JSON is neither a kernelwright journal, nor a Kernel Tuner cache "
        "(tune_params_keys, cache), nor T4 results (results); give one of these or a CSV"
    )


def _is_journal(text: str) -> bool:
    """Return whether the first line is a record with a kind."""
    first = text.lstrip().partition("\n")[0]
    try:
        record = json.loads(first)
    except (ValueError, RecursionError):
        # Cut off while the first record was written.
        return first.startswith('{"kind":')
    return isinstance(record, dict) and "kind" in record


def _journal(records: list[Record], path: Path, kernel: str | None) -> Recording:
    """Return the timed or failed trials of one kernel's search. Of two trials of a config the later one counts."""
    found: Counter[str] = Counter()
    results: dict[Config, RecordedResult] = {}
    for trial in records:
        if not isinstance(trial, Trial):
            continue
        # Finalists are timed interleaved, so their times do not compare with those of single trials.
        if trial.origin == FINAL:
            continue
        evaluation = trial.evaluation
        # The kernel's own values are not a config of the space, and a check without timing has no speed.
        if not evaluation.config or (evaluation.ok and evaluation.measurement is None):
            continue
        if kernel is None or evaluation.kernel_digest.startswith(kernel):
            found[evaluation.kernel_digest] += 1
            results[Config(evaluation.config)] = RecordedResult.of(evaluation)
    if len(found) > 1:
        named = ", ".join(f"{digest} ({count} trials)" for digest, count in found.most_common())
        raise JournalError(
            f"{path} holds trials of {len(found)} kernels: {named}; "
            "choose one with 'kernelwright tune export --kernel DIGEST'"
        )
    if not found:
        of = f" of kernel {kernel}" if kernel else ""
        raise JournalError(f"{path} contains no measured config{of}; record a search over parameters first")
    return Recording(results, str(path), next(iter(found)))
