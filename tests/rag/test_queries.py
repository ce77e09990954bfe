"""The labelled retrieval queries: complete, about things that exist, and a third of them held back."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "retrieval"
FIELDS = {"text", "language", "target", "operation", "category", "kernel", "problem", "expected"}
TARGETS = {"triton": {"cuda"}, "tilelang": {"cuda", "cpu"}}
CATEGORIES = {"memory", "compute", "parallelism", "algorithm"}


def _read(name: str) -> list[dict[str, Any]]:
    with (FOLDER / name).open("rb") as file:
        queries: list[dict[str, Any]] = tomllib.load(file)["query"]
    return queries


TUNED_ON = _read("queries.toml")
HELD_BACK = _read("held_back.toml")
EVERY = TUNED_ON + HELD_BACK


def _examples() -> set[str]:
    return {f"{path.parts[-3]}/{path.parts[-2]}" for path in (ROOT / "corpus" / "examples").glob("*/*/example.toml")}


@pytest.mark.parametrize("query", EVERY, ids=lambda query: f"{query['language']}: {query['text'][:40]}")
def test_a_query_is_well_formed(query: dict[str, Any]) -> None:
    assert {"text", "language", "target", "expected"} <= set(query) <= FIELDS
    assert query["text"].strip()
    assert query["target"] in TARGETS[query["language"]]
    assert query.get("category", "memory") in CATEGORIES
    assert 1 <= len(query["expected"]) == len(set(query["expected"])) <= 3
    assert ("kernel" in query) == ("problem" in query)
    if "kernel" in query:
        backend = "tilelang_cpu" if query["target"] == "cpu" else query["language"]
        assert query["kernel"] == f"corpus/kernels/{backend}/{query['problem']}.py"
        assert (ROOT / query["kernel"]).is_file()


def test_the_expected_examples_exist() -> None:
    assert {slug for query in EVERY for slug in query["expected"]} - _examples() == set()


def test_every_example_is_the_best_answer_to_some_query_that_is_tuned_on() -> None:
    assert _examples() - {query["expected"][0] for query in TUNED_ON} == set()


def test_no_query_is_asked_twice() -> None:
    """Neither within a file nor in both: a query is its text and all that is known of the kernel, not its labels."""
    asked = [json.dumps({**query, "expected": []}, sort_keys=True) for query in EVERY]
    assert len(set(asked)) == len(asked)


def test_a_third_is_held_back() -> None:
    assert len(EVERY) >= 60
    assert 3 * len(HELD_BACK) >= len(EVERY)
