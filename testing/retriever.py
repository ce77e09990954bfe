"""What every way of retrieving worked examples must do."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ..core import BOTTLENECKS, OptionError, Query, Retriever, Target, WorkedExample
from ..core.languages import TILELANG, TRITON
from ..corpus import find_kernel, load_examples

MakeRetriever = Callable[[Sequence[WorkedExample]], Retriever]
NO_PYTHON = "no Python at all ("
FIELDS: dict[str, Sequence[Any]] = {
    "text": ["", "online softmax", "split the K dimension", "ünïcode \0 ???", "a " * 500],
    "language": [None, TILELANG, TRITON],
    "target": [None, *Target],
    "device": [None, "NVIDIA H200"],
    "operation": [None, "softmax", "matmul", "no such operation"],
    "category": [None, *BOTTLENECKS],
    "source": [None, "", "1_19", NO_PYTHON],
    "exclude": [None, "level1/1_23", "triton/softmax-online"],
}
DRAWN = 15


@functools.cache
def shipped() -> tuple[WorkedExample, ...]:
    """Return the shipped examples."""
    notes: list[str] = []
    found = tuple(load_examples(notes.append))
    assert found and notes == []
    return found


@functools.cache
def relu() -> str:
    """Return the source of a kernel that no example is of."""
    return find_kernel("1_19", "triton").read().source


def queries() -> Iterator[tuple[Query, int]]:
    """Yield drawn queries, always the same, each with how many answers it asks for."""
    chance = random.Random(1)
    for _ in range(DRAWN):
        drawn = {name: chance.choice(values) for name, values in FIELDS.items()}
        drawn["source"] = relu() if drawn["source"] == "1_19" else drawn["source"]
        yield Query(**drawn), chance.randint(1, 50)


class RetrieverSuite:
    """What every retriever must do. Override `create`."""

    @pytest.fixture
    def create(self) -> MakeRetriever:
        """Return what makes the retriever over examples."""
        raise NotImplementedError("override the fixture `create` in your class")

    @pytest.fixture
    def retriever(self, create: MakeRetriever) -> Retriever:
        """Return one over the shipped examples."""
        return create(shipped())

    def test_answers_are_ordered_distinct_and_at_most_k(self, retriever: Retriever) -> None:
        answered = 0
        for query, k in queries():
            hits = retriever.search(query, k)
            slugs = [hit.example.slug for hit in hits]
            assert len(slugs) == len(set(slugs)) <= k
            assert query.exclude not in slugs
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
            assert all(hit.why for hit in hits)
            assert retriever.search(query, k) == hits
            assert [hit.example.slug for hit in retriever.search(query, k + 3)][: len(slugs)] == slugs
            answered += bool(hits)
        assert answered

    @pytest.mark.parametrize("k", [0, -1, True, 2.0, "3", None])
    def test_a_count_that_is_none_is_refused(self, retriever: Retriever, k: object) -> None:
        with pytest.raises(OptionError, match="whole number from 1"):
            retriever.search(Query(text="anything"), k)  # type: ignore[arg-type]

    def test_no_examples_give_no_answers(self, create: MakeRetriever) -> None:
        assert create([]).search(Query(text="anything", source=relu()), 3) == []

    def test_the_problem_that_is_optimized_is_never_an_answer(self, create: MakeRetriever) -> None:
        one, another = itertools.islice((found for found in shipped() if found.language is TRITON), 2)
        own, other = (
            replace(one, slug="run/own", problem="level1/1_19"),
            replace(another, slug="run/other", problem="x"),
        )
        retriever = create([own, other])
        query = Query(text=f"{own.title}; {other.title}")
        assert {hit.example.slug for hit in retriever.search(query, 5)} == {"run/own", "run/other"}
        hits = retriever.search(replace(query, exclude="level1/1_19"), 5)
        assert [hit.example.slug for hit in hits] == ["run/other"]

    def test_an_example_is_not_shown_to_its_own_kernel(self, retriever: Retriever) -> None:
        """However the kernel is laid out, and whatever its comments say."""
        one = next(found for found in shipped() if found.slug == "triton/softmax-online")
        for source in (one.before, one.after):
            laid_out = "# another comment\n" + source.replace("    ", "  ").replace('"""Softmax', '"""SOFTMAX')
            slugs = [hit.example.slug for hit in retriever.search(Query(text=one.title, source=laid_out), 50)]
            assert one.slug not in slugs
            others = retriever.search(Query(text=one.title, source=relu()), 3)
            assert one.slug in [hit.example.slug for hit in others]

    def test_near_duplicates_are_folded(self, create: MakeRetriever) -> None:
        one = next(found for found in shipped() if found.slug == "triton/flash-attention")
        after = one.after.replace("start", "begin", 1)
        copy = replace(one, slug="run/copy", before=one.before + "\nX = 1\n", after=after)
        hits = create([*shipped(), copy]).search(Query(text=one.title, language=TRITON), 50)
        assert len({"run/copy", one.slug} & {hit.example.slug for hit in hits}) == 1

    @pytest.mark.parametrize(
        ("query", "wanted"),
        [
            (Query("a softmax that keeps a running maximum", TRITON, Target.CUDA), "triton/softmax-online"),
            (Query("use all cores of the processor", TILELANG, Target.CPU), "tilelang_cpu/matmul-threads"),
            (Query("tiles of the product on tensor cores", TILELANG, Target.CUDA), "tilelang/matmul-tensor-cores"),
        ],
    )
    def test_plain_questions_are_answered(self, retriever: Retriever, query: Query, wanted: str) -> None:
        assert wanted in [hit.example.slug for hit in retriever.search(query, 3)]

    def test_the_kernel_alone_is_a_question(self, retriever: Retriever) -> None:
        source = find_kernel("level1/1_23", "triton").read().source
        query = Query(language=TRITON, target=Target.CUDA, source=source, exclude="level1/1_23")
        assert "softmax" in [hit.example.operation for hit in retriever.search(query, 3)]
