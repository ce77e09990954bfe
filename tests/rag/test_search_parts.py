"""Words, near duplicates, the entries of an example, and the order that the signs give."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernelwright.core import Query, Target
from kernelwright.core.languages import TILELANG
from kernelwright.rag import ExampleRetriever
from kernelwright.rag import retriever as searching
from kernelwright.rag.code.similarity import canonical, nearly_the_same, resemblance, shingles
from kernelwright.rag.documents import documents
from kernelwright.rag.lexical import Lexicon, terms

from .kernels import GAIN, ONLINE, PRODUCT_TF32, RELU, TWO_PASSES, example, triton

TEXTS = ["online softmax of long rows", "split K over the grid of a matrix product", "transpose through shared memory"]


def _best(query: str) -> int:
    scores = list(Lexicon(TEXTS).scores(query))
    return scores.index(max(scores))


@pytest.mark.parametrize(
    ("query", "best"),
    [("softmax", 0), ("Split-K", 1), ("matrices", 1), ("transposing", 2), ("sofmax", 0), ("memry of a transpsoe", 2)],
)
def test_words_their_forms_and_misspellings_are_found(query: str, best: int) -> None:
    assert _best(query) == best


@given(st.text(max_size=60), st.lists(st.text(max_size=60), max_size=5))
def test_lexical_scores_are_shares(query: str, texts: list[str]) -> None:
    scores = Lexicon(texts).scores(query)
    assert len(scores) == len(texts)
    assert all(0.0 <= score <= 1.0 for score in scores)


def test_words_that_say_nothing_match_nothing() -> None:
    assert terms("how can I do this to the") == []
    assert list(Lexicon(TEXTS).scores("how can I do this to the")) == [0.0] * 3


def test_layout_and_comments_do_not_make_another_kernel() -> None:
    laid_out = RELU.replace("BLOCK = 1024", "BLOCK   =   1024  # wide").replace("A kernel.", "Another text.")
    assert canonical(laid_out) == canonical(RELU) != canonical(RELU.replace("1024", "2048"))
    assert canonical("not ( python") == canonical("not  (\n python")


def test_resemblance() -> None:
    first, second, other = (
        shingles(TWO_PASSES),
        shingles(TWO_PASSES.replace("largest", "biggest", 1)),
        shingles(PRODUCT_TF32),
    )
    assert resemblance(first, first) == 1.0 > resemblance(first, second) > 0.9 > resemblance(first, other)
    assert nearly_the_same(first, second, 0.9) and not nearly_the_same(first, other, 0.9)
    assert resemblance(shingles(""), shingles("")) == 1.0


def test_an_example_has_an_entry_per_technique() -> None:
    entries = documents(7, example(techniques=("split-k", "tma")))
    assert [entry.example for entry in entries] == [7, 7]
    assert "split k" in entries[0].text and "descriptor" in entries[1].text
    assert all("Rectified linear unit" in entry.text for entry in entries)
    assert len(documents(0, example(techniques=()))) == 1


def _ranking(query: Query, **changes: dict[str, object]) -> list[str]:
    """The order of examples that differ in these fields only."""
    bodies = [
        f"tl.store(y_ptr + {n}, tl.load(x_ptr + {'n + ' * n}{n}) + {n}.0)\n" * (n + 1) for n in range(len(changes))
    ]
    examples = [
        example(slug, **{"before": triton(body), "after": triton(body * 2), **fields})
        for body, (slug, fields) in zip(bodies, changes.items(), strict=True)
    ]
    return [hit.example.slug for hit in ExampleRetriever(examples, None).search(query, 9)]


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        (Query(operation="softmax"), {"operation": "softmax"}),
        (Query(language=TILELANG), {"language": TILELANG}),
        (Query(target=Target.CPU), {"target": Target.CPU}),
        (Query(category="compute"), {"category": "compute"}),
        (Query(device="NVIDIA H200"), {"gain": GAIN}),
        (Query(source=TWO_PASSES), {"operation": "softmax"}),
    ],
)
def test_each_sign_counts(query: Query, fields: dict[str, object]) -> None:
    assert _ranking(query, a={}, b=fields, c={}) == ["b", "a", "c"]


@pytest.mark.parametrize("error", [IndexError, AttributeError, KeyError, TypeError, RecursionError])
def test_of_code_that_cannot_be_analysed_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(_: object) -> None:
        raise error("not foreseen")

    monkeypatch.setattr(searching, "operation", fail)
    with_kernel, without = (
        ExampleRetriever(
            [example(), example("triton/two", operation="softmax", before=TWO_PASSES, after=ONLINE)], None
        ).search(query, 2)
        for query in (Query("softmax", source=PRODUCT_TF32), Query("softmax"))
    )
    assert [hit.example.slug for hit in with_kernel] == ["triton/two", "triton/one"]
    assert with_kernel == without
