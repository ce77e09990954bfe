"""Which speedups a listing remembers."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelwright.api.list_slow import Records
from kernelwright.core import Config, JournalError

from ..fakes import evaluation, kernel

KEY = {"kernel": "one"}


def test_a_disturbed_speedup_is_remembered_until_a_quiet_one_is_known(tmp_path: Path) -> None:
    """Measuring it again at every call would keep a busy machine at it for ever."""
    with Records(tmp_path / "speedups.jsonl") as records:
        assert records.find(KEY) is None
        records.add(KEY, evaluation(kernel(2.0), Config(), 2.0, contention=1.5))
        assert (found := records.find(KEY)) and found["contention"] == 1.5
        records.add(KEY, evaluation(kernel(2.0), Config(), 3.0))
        records.add(KEY, evaluation(kernel(2.0), Config(), 4.0, contention=1.5))
    with Records(tmp_path / "speedups.jsonl") as records:
        assert (found := records.find(KEY)) and (found["latency_ms"], found["contention"]) == (3.0, None)
        assert records.find({"kernel": "another"}) is None


def test_a_locked_file_names_what_moves_it(tmp_path: Path) -> None:
    path = tmp_path / "speedups.jsonl"
    with Records(path), pytest.raises(JournalError, match="wait for it, or set KERNELWRIGHT_CACHE to another folder"):
        Records(path)
