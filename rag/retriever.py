"""Searches worked examples: by meaning, by words, and by properties of the kernel and its device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..core import Hit, Query, WorkedExample, check_count
from .code.operation import operation
from .code.similarity import canonical, nearly_the_same, shingles
from .code.syntax import parse
from .documents import documents, words_of
from .embeddings import Embedder
from .index import open_index
from .lexical import Lexicon

NEARLY_THE_SAME = 0.9
"""Two examples whose code is more similar than this count as one."""


@dataclass(frozen=True)
class Weights:
    """The weight of each criterion; tuned on benchmarks/retrieval/queries.toml, around a broad optimum."""

    vector: float = 1.5
    """Factor of the cosine of the query and the example's nearest entry."""
    lexical: float = 1.5
    """Factor of the share of the query's words that the example has, by BM25."""
    operation: float = 0.65
    """For the operation that the query names."""
    guess: float = 0.3
    """For the operation that the query's kernel seems to compute, where the query names none."""
    language: float = 0.6
    target: float = 0.75
    device: float = 0.1
    """For a measurement on the query's device."""
    category: float = 0.3
    """For an example against the query's bottleneck."""


@dataclass(frozen=True)
class _Known:
    """The analysis of the query's kernel."""

    canonical: str
    operation: str
    """A guess; see `code.operation`."""


class ExampleRetriever:
    """A `core.Retriever` over some examples; without an embedder it uses words and properties.

    `folder` keeps the vectors between runs; `note` gets messages for the user, a line each.
    """

    def __init__(
        self,
        examples: Sequence[WorkedExample],
        embedder: Embedder | None,
        folder: Path | None = None,
        note: Callable[[str], None] = lambda line: None,
        weights: Weights = Weights(),
    ) -> None:
        self._examples = [_Indexed(example) for example in examples]
        self._weights = weights
        self._lexicon = Lexicon(words_of(example) for example in examples)
        self._entries = [entry for number, example in enumerate(examples) for entry in documents(number, example)]
        texts = [entry.text for entry in self._entries]
        self._index = open_index(texts, embedder, folder, note) if embedder else None

    def search(self, query: Query, k: int) -> list[Hit]:
        """See `core.Retriever`."""
        check_count(k)
        known = _read(query.source)
        cosines = self._cosines(query, known)
        matches = self._lexicon.scores(query.text)
        found = []
        for number, candidate in enumerate(self._examples):
            if not candidate.excluded(query, known):
                reasons = self._reasons(candidate.example, query, known, cosines[number], matches[number])
                found.append((sum(worth for worth, _ in reasons), candidate, reasons))
        found.sort(key=lambda item: (-item[0], item[1].example.slug))
        kept: list[_Indexed] = []
        hits: list[Hit] = []
        for score, candidate, reasons in found:
            if len(hits) == k:
                break
            if not any(nearly_the_same(candidate.shingles, other.shingles, NEARLY_THE_SAME) for other in kept):
                kept.append(candidate)
                hits.append(Hit(candidate.example, score, _why(reasons)))
        return hits

    def _cosines(self, query: Query, known: _Known | None) -> list[float]:
        """Return the cosine of each example's nearest entry."""
        found = [0.0] * len(self._examples)
        text = query.text or " ".join(filter(None, [query.operation, query.category]))
        if self._index is not None and self._weights.vector:
            text = text or (known.operation if known else "")
            for entry, score in zip(self._entries, self._index.scores(text), strict=True):
                found[entry.example] = max(found[entry.example], float(score))
        return found

    def _reasons(
        self, example: WorkedExample, query: Query, known: _Known | None, cosine: float, match: float
    ) -> list[tuple[float, str]]:
        """Return the criteria that an example meets: the value of each, and its words."""
        w = self._weights
        guess = known.operation if known and not query.operation else None
        signs = [
            (w.vector * cosine, "near in meaning"),
            (w.lexical * match, "shares words"),
            (w.operation * (example.operation == query.operation), f"also {example.operation}"),
            (w.guess * (example.operation == guess), f"the kernel looks like {example.operation}"),
            (w.language * (example.language == query.language), f"in {example.language}"),
            (w.target * (example.target == query.target), f"for {example.target}"),
            (w.category * (example.category == query.category), f"cures a {example.category} bottleneck"),
        ]
        if example.gain and query.device:
            signs.append((w.device * (example.gain.device == query.device), "measured on this device"))
        return [(worth, words) for worth, words in signs if worth > 0]


class _Indexed:
    """An example with its precomputed search data."""

    def __init__(self, example: WorkedExample) -> None:
        self.example = example
        self._forms = {canonical(example.before), canonical(example.after)}
        self.shingles = shingles(example.before) | shingles(example.after)

    def excluded(self, query: Query, known: _Known | None) -> bool:
        """Return whether it is the problem that is being optimized, or has the same kernel."""
        same = query.exclude is not None and query.exclude in (self.example.problem, self.example.slug)
        return same or (known is not None and known.canonical in self._forms)


def _read(source: str | None) -> _Known | None:
    """Analyse a kernel; None if that fails."""
    if not source:
        return None
    try:
        return _Known(canonical(source), operation(parse(source)))
    except Exception:  # a model may write any code: an analysis error must not end a run
        return None


def _why(reasons: Sequence[tuple[float, str]]) -> str:
    """Return the reasons in words, the most important first."""
    ordered = sorted(reasons, key=lambda reason: -reason[0])
    return ", ".join(words for _, words in ordered if words) or "nothing is nearer"
