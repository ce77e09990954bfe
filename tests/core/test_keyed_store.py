"""Rows in a file that several processes change, and caches, which nothing depends on."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
from kernelwright.core import ResultsError
from kernelwright.core.cache import Cache
from kernelwright.core.keyed_store import KeyedStore
from pydantic import BaseModel


def parsed(document: Any) -> dict[str, int]:
    return {str(key): int(value) for key, value in document["rows"].items()}


def dumped(rows: dict[str, int], before: Any) -> Any:
    return {**before, "rows": rows}


def store(path: Path, **options: Any) -> KeyedStore[str, int]:
    return KeyedStore(path, parsed, dumped, "choose another file", **options)


def test_rows_are_added_replaced_and_removed_and_the_rest_of_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    assert store(path).read() == {}
    path.write_text('{"by": "another tool", "rows": {"a": 1}}')
    assert store(path).update({"b": 2, "a": 3}) == {"a": 3, "b": 2}
    assert store(path).update({"a": None, "none": None}) == {"b": 2}
    assert json.loads(path.read_text()) == {"by": "another tool", "rows": {"b": 2}}


@pytest.mark.parametrize("damage", ["{", "[]", "{}", '{"rows": {"a": "x"}}'])
def test_a_damaged_file_is_an_error_or_replaced(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(damage)
    for change in (store(path).read, lambda: store(path).update({"a": 1})):
        with pytest.raises((ValueError, KeyError, TypeError)):
            change()
    assert path.read_text() == damage
    assert store(path, replaces_damaged=True).update({"a": 1}) == {"a": 1} == store(path).read()


def test_a_file_that_cannot_be_written_names_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="choose another file"):
        store(tmp_path / "file" / "rows.json").update({"a": 1})


def add_many(path: Path, first: int) -> None:
    for number in range(first, first + 25):
        store(path).update({str(number): number})


def test_processes_lose_nothing_of_each_other(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=add_many, args=(path, first)) for first in (0, 100, 200)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(store(path).read()) == 75


class Timing(BaseModel):
    ms: float


def test_a_cache_keeps_entries_of_its_type_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "times.json"
    cache = Cache(path, Timing)
    assert cache.get("a") is None
    cache.put("a", Timing(ms=1.5))
    assert Cache(path, Timing).get("a") == Timing(ms=1.5)
    path.write_text('{"a": {"of": "another version"}, "b": {"ms": 2}}')
    assert cache.get("a") is None and cache.get("b") == Timing(ms=2)
    cache.put("c", Timing(ms=3))
    assert json.loads(path.read_text())["a"] == {"of": "another version"}
    path.write_text("{")
    assert cache.get("b") is None
    cache.put("b", Timing(ms=4))
    assert cache.get("b") == Timing(ms=4)


def test_a_cache_without_a_file_keeps_nothing() -> None:
    cache = Cache(None, int)
    cache.put("a", 1)
    assert cache.get("a") is None
