"""Search by words, without any model: BM25 over words and character n-grams."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

_WORD = re.compile(r"[a-z0-9]+")
GRAM = 4
"""Letters per n-gram. n-grams find inflected and misspelt words (McNamee and Mayfield, 'Character n-gram tokenization
for European language text retrieval', Information Retrieval 7, 2004, where four is the best length for English)."""

STOP_WORDS = frozenset(
    word
    for line in (
        "a an and are as at be but by can do does each for from has have how i in into is it its my no not of on one",
        "only or so some than that the their them then there they this to too up was what when where which while will",
        "with",
    )
    for word in line.split()
)


def words(text: str) -> list[str]:
    """Return the words of a text in lower case, without stop words."""
    return [word for word in _WORD.findall(text.lower()) if word not in STOP_WORDS]


def terms(text: str) -> list[str]:
    """Return the matched terms: each word, and the n-grams of words longer than one."""
    found = []
    for word in words(text):
        found.append(word)
        found += [f"{word[i : i + GRAM]}~" for i in range(len(word) - GRAM + 1) if len(word) > GRAM]
    return found


K1, B = 1.2, 0.75
"""The usual parameters of BM25."""


class Lexicon:
    """Texts that can be scored against a query with Okapi BM25.

    Robertson and Zaragoza, 'The probabilistic relevance framework: BM25 and beyond', Foundations and Trends in
    Information Retrieval 3(4), 2009; the inverse document frequency is
    Lucene's, which is never negative.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        counts = [Counter(terms(text)) for text in texts]
        lengths = [sum(count.values()) for count in counts]
        mean = sum(lengths) / len(lengths) if lengths else 1.0
        holding: Counter[str] = Counter()
        for count in counts:
            holding.update(count.keys())
        self._size = len(counts)
        # A term that no text contains is as rare as possible.
        self._unknown = self._rarity(0) * (K1 + 1)
        self._most = {term: self._rarity(times) * (K1 + 1) for term, times in holding.items()}
        # Each term's share of the score of each text that contains it.
        self._weights: dict[str, list[tuple[int, float]]] = {term: [] for term in holding}
        for number, (count, length) in enumerate(zip(counts, lengths, strict=True)):
            for term, times in count.items():
                often = times / (times + K1 * (1 - B + B * length / mean))
                self._weights[term].append((number, self._most[term] * often))

    def _rarity(self, holding: int) -> float:
        return math.log(1 + (self._size - holding + 0.5) / (holding + 0.5))

    def scores(self, query: str) -> Sequence[float]:
        """Return one score per text, in their order: BM25 over the highest possible score, so from 0 to 1."""
        asked = dict.fromkeys(terms(query))
        scores = [0.0] * self._size
        for term in asked:
            for number, weight in self._weights.get(term, ()):
                scores[number] += weight
        most = sum(self._most.get(term, self._unknown) for term in asked)
        return [score / most for score in scores] if most else scores
