"""What every way of retrieving examples promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernelwright.core import BOTTLENECKS, OptionError, Query, Retriever, Target, WorkedExample
from kernelwright.core.languages import TILELANG, TRITON
from kernelwright.corpus import find_kernel, load_examples
from kernelwright.rag import ExampleRetriever

from ..rag.kernels import RELU, example
from ..rag.models import embedder
from ..surroundings import example_vectors

Maker = Callable[[Sequence[WorkedExample]], Retriever]
MAKERS: dict[str, Maker] = {
    "full": lambda examples: ExampleRetriever(examples, embedder(), example_vectors()),
    "words only": lambda examples: ExampleRetriever(examples, None),
}
every = pytest.mark.parametrize("name", MAKERS)

NEITHER = "no Python at all ("


@cache
def shipped() -> tuple[WorkedExample, ...]:
    notes: list[str] = []
    found = tuple(load_examples(notes.append))
    assert found and notes == []
    return found


@cache
def over_shipped(name: str) -> Retriever:
    return MAKERS[name](shipped())


QUERIES = st.builds(
    Query,
    text=st.sampled_from(["", "online softmax", "split the K dimension", "ünïcode \0 ???", "a " * 500]),
    language=st.sampled_from([None, TILELANG, TRITON]),
    target=st.sampled_from([None, *Target]),
    device=st.sampled_from([None, "NVIDIA H200"]),
    operation=st.sampled_from([None, "softmax", "matmul", "no such operation"]),
    category=st.sampled_from([None, *BOTTLENECKS]),
    source=st.sampled_from([None, "", RELU, NEITHER]),
    exclude=st.sampled_from([None, "level1/1_23", "triton/softmax-online"]),
)


@every
@settings(max_examples=15, deadline=None)
@given(query=QUERIES, k=st.integers(1, 50))
def test_answers_are_ordered_distinct_and_at_most_k(name: str, query: Query, k: int) -> None:
    hits = over_shipped(name).search(query, k)
    slugs = [hit.example.slug for hit in hits]
    assert len(slugs) == len(set(slugs)) <= k
    assert query.exclude not in slugs
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(hit.why for hit in hits)
    assert over_shipped(name).search(query, k) == hits
    assert [hit.example.slug for hit in over_shipped(name).search(query, k + 3)][: len(slugs)] == slugs


@every
@pytest.mark.parametrize("k", [0, -1, True, 2.0, "3", None])
def test_a_count_that_is_none_is_refused(name: str, k: object) -> None:
    with pytest.raises(OptionError, match="whole number from 1"):
        over_shipped(name).search(Query(text="anything"), k)  # type: ignore[arg-type]


@every
def test_no_examples_give_no_answers(name: str) -> None:
    assert MAKERS[name]([]).search(Query(text="anything", source=RELU), 3) == []


@every
def test_the_problem_that_is_optimized_is_never_an_answer(name: str) -> None:
    own = example("run/own", problem="level1/1_19")
    other = replace(shipped()[0], slug="run/other", problem="level1/1_20")
    retriever = MAKERS[name]([own, other])
    assert {hit.example.slug for hit in retriever.search(Query(text="relu"), 5)} == {"run/own", "run/other"}
    hits = retriever.search(Query(text="relu", exclude="level1/1_19"), 5)
    assert [hit.example.slug for hit in hits] == ["run/other"]


@every
def test_an_example_is_not_shown_to_its_own_kernel(name: str) -> None:
    """However the kernel is laid out, and whatever its comments say."""
    one = next(found for found in shipped() if found.slug == "triton/softmax-online")
    for source in (one.before, one.after):
        laid_out = "# another comment\n" + source.replace("    ", "  ").replace('"""Softmax', '"""SOFTMAX')
        slugs = [hit.example.slug for hit in over_shipped(name).search(Query(text=one.title, source=laid_out), 50)]
        assert one.slug not in slugs
        assert "triton/softmax-online" in [
            hit.example.slug for hit in over_shipped(name).search(Query(text=one.title, source=RELU), 3)
        ]


@every
def test_near_duplicates_are_folded(name: str) -> None:
    one = next(found for found in shipped() if found.slug == "triton/flash-attention")
    copy = replace(one, slug="run/copy", before=one.before + "\nX = 1\n", after=one.after.replace("start", "begin", 1))
    hits = MAKERS[name]([*shipped(), copy]).search(Query(text=one.title, language=TRITON), 50)
    assert len({"run/copy", one.slug} & {hit.example.slug for hit in hits}) == 1


@every
@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (Query("a softmax that keeps a running maximum", TRITON, Target.CUDA), "triton/softmax-online"),
        (Query("use all cores of the processor", TILELANG, Target.CPU), "tilelang_cpu/matmul-threads"),
        (Query("tiles of the product on tensor cores", TILELANG, Target.CUDA), "tilelang/matmul-tensor-cores"),
    ],
)
def test_plain_questions_are_answered(name: str, query: Query, wanted: str) -> None:
    assert wanted in [hit.example.slug for hit in over_shipped(name).search(query, 3)]


@every
def test_the_kernel_alone_is_a_question(name: str) -> None:
    source = find_kernel("level1/1_23", "triton").read().source
    query = Query(language=TRITON, target=Target.CUDA, source=source, exclude="level1/1_23")
    operations = [hit.example.operation for hit in over_shipped(name).search(query, 3)]
    assert "softmax" in operations


@every
def test_reasons_are_given(name: str) -> None:
    query = Query("online softmax", TRITON, Target.CUDA, operation="softmax", category="memory")
    why = over_shipped(name).search(query, 1)[0].why
    assert "also softmax" in why and "in triton" in why and "cures a memory bottleneck" in why
