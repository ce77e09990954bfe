"""Measures quality and speed of the example search on labelled queries.

    python benchmarks/retrieval.py [--held-back] [--misses] [--json FILE]
    python benchmarks/retrieval.py --ablate

Recall at 1 and 3 (one of the examples that an expert expects is among the first 1 or 3), the mean reciprocal rank of
the first of them, and the time of a query after loading: median and 95th percentile over all queries, each run once,
after one warm-up query; the load average shows whether the machine was busy.

The weights are tuned on retrieval/queries.toml only; --held-back measures them on retrieval/held_back.toml.

--ablate prints how recall at 3 changes when one part of the search is left out, on both files.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import tomllib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from unittest.mock import patch

from command import run_benchmark
from kernelwright.core import Query, Target, WorkedExample, find_language
from kernelwright.corpus import load_examples
from kernelwright.rag import Embedder, ExampleRetriever, Weights, load_embedder, retriever
from kernelwright.runtime.devices import device_label

ROOT = Path(__file__).parents[1]
FOLDER = Path(__file__).with_suffix("")
ASKED_FOR = 10

WEIGHTS = Weights()
ALONE = replace(WEIGHTS, operation=0, guess=0, language=0, target=0, device=0, category=0)


@dataclass(frozen=True)
class Way:
    """A variant of the search."""

    what: str
    model: bool
    """Whether it uses the embedding model."""
    weights: Weights = WEIGHTS
    asked: Callable[[Query], Query] = lambda query: query
    """Changes a labelled query."""


def as_the_agent(query: Query) -> Query:
    """Drop the operation where the query is not about a problem: the agent takes it from the problem."""
    return query if query.exclude else replace(query, operation=None)


WAYS = {
    "full": Way("all that a query is labelled with", True),
    "as the agent asks": Way(
        "full, but the operation is known only where the query is about a problem",
        True,
        asked=as_the_agent,
    ),
    "without a model": Way("full, without vectors", False),
    "vectors only": Way("the cosine alone", True, replace(ALONE, lexical=0)),
    "words only": Way("BM25 alone", False, ALONE),
}


def read_queries(path: Path) -> list[tuple[Query, list[str]]]:
    """Return the queries of a file, and the expected slugs of each."""
    found = []
    for entry in tomllib.loads(path.read_text())["query"]:
        query = Query(
            text=entry["text"],
            language=find_language(entry["language"]),
            target=Target(entry["target"]),
            operation=entry.get("operation"),
            category=entry.get("category"),
            source=(ROOT / entry["kernel"]).read_text() if "kernel" in entry else None,
            exclude=entry.get("problem"),
        )
        found.append((query, entry["expected"]))
    return found


def rank_of_expected(slugs: Sequence[str], expected: Sequence[str]) -> int | None:
    """Return the rank, from 1, of the first expected example; None where none was found."""
    return next((place for place, slug in enumerate(slugs, start=1) if slug in expected), None)


def measure(
    retriever: ExampleRetriever, queries: Sequence[tuple[Query, list[str]]], missed: Callable[[str], None]
) -> dict[str, float]:
    """Return the metrics of one variant."""
    retriever.search(Query(text="warm up"), 1)
    ranks, times = [], []
    for query, expected in queries:
        start = time.perf_counter()
        hits = retriever.search(query, ASKED_FOR)
        times.append((time.perf_counter() - start) * 1e3)
        slugs = [hit.example.slug for hit in hits]
        ranks.append(rank_of_expected(slugs, expected))
        if ranks[-1] is None or ranks[-1] > 3:
            missed(f"  missed: {query.text!r} ({query.language}): wanted {expected}, found {slugs[:3]}")
    return {
        "recall_at_1": sum(rank == 1 for rank in ranks) / len(ranks),
        "recall_at_3": sum(rank is not None and rank <= 3 for rank in ranks) / len(ranks),
        "mrr": statistics.fmean(1 / rank if rank else 0.0 for rank in ranks),
        "median_ms": statistics.median(times),
        "p95_ms": statistics.quantiles(times, n=20, method="inclusive")[-1],
    }


class _Remembered:
    """An embedder that computes each text once."""

    def __init__(self, embedder: Embedder) -> None:
        self.name = embedder.name
        self._embedder = embedder
        self._known: dict[str, Any] = {}

    def encode(self, texts: Sequence[str]) -> Any:
        import numpy as np

        self._known |= {text: self._embedder.encode([text])[0] for text in texts if text not in self._known}
        return np.stack([self._known[text] for text in texts])


def _parts() -> dict[str, tuple[Weights, Any]]:
    """Return what can be left out: the weights without it, and a patch that removes it."""
    signs = ("vector", "lexical", "operation", "guess", "language", "target", "category")
    parts: dict[str, tuple[Weights, Any]] = {
        f"the sign '{sign}'": (replace(WEIGHTS, **{sign: 0}), nullcontext()) for sign in signs
    }
    parts["exclusion of the very kernel"] = (WEIGHTS, patch.object(retriever, "canonical", lambda source: object()))
    parts["near duplicates"] = (WEIGHTS, patch.object(retriever, "nearly_the_same", lambda *_: False))
    return parts


def ablate(examples: Sequence[WorkedExample], embedder: Embedder | None) -> None:
    """Print what recall at 3 loses without each part."""
    embedder = _Remembered(embedder) if embedder else None
    columns = {
        f"{way}, {file}": [(WAYS[way].asked(query), expected) for query, expected in read_queries(FOLDER / file)]
        for way in ("full", "as the agent asks")
        for file in ("queries.toml", "held_back.toml")
    }
    print("\n".join(f"({number}) {name}" for number, name in enumerate(columns, start=1)))

    def recalls(weights: Weights) -> list[float]:
        searching = ExampleRetriever(examples, embedder, weights=weights)
        return [measure(searching, queries, lambda _: None)["recall_at_3"] for queries in columns.values()]

    whole = recalls(WEIGHTS)
    print(f"{'without':52} " + " ".join(f"{f'({number})':>6}" for number in range(1, len(columns) + 1)))
    print(f"{'nothing: recall at 3':52} " + " ".join(f"{recall:6.3f}" for recall in whole))
    for name, (weights, patched) in _parts().items():
        with patched:
            rest = recalls(weights)
        print(
            f"{name:52} " + " ".join(f"{less - all_:+6.3f}" for less, all_ in zip(rest, whole, strict=True)), flush=True
        )


def versions() -> dict[str, str]:
    """Return the packages that the vectors depend on."""
    found = {}
    for name in ("torch", "sentence-transformers", "faiss-cpu"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--held-back", action="store_true", help="measure on the queries that are not tuned on")
    parser.add_argument("--misses", action="store_true", help="show which queries found nothing expected")
    parser.add_argument("--json", type=Path, help="write the metrics to this file too")
    parser.add_argument("--ablate", action="store_true", help="measure the search without one part at a time")
    options = parser.parse_args()
    queries = read_queries(FOLDER / ("held_back.toml" if options.held_back else "queries.toml"))
    examples = load_examples(print)
    start = time.perf_counter()
    embedder: Embedder | None = load_embedder(print)
    load_s = time.perf_counter() - start
    print(
        f"{len(queries)} queries, {len(examples)} examples, on {device_label('cpu')}, "
        f"{', '.join(f'{name} {found}' for name, found in versions().items())}; the model loads in {load_s:.2f} s"
    )
    if options.ablate:
        ablate(examples, embedder)
        return
    report: dict[str, Any] = {"processor": device_label("cpu"), "queries": len(queries), "examples": len(examples)}
    report["versions"] = versions()
    report |= {"model_load_s": load_s, "load_average": os.getloadavg()[0]}
    print(f"load average {report['load_average']:.2f}")
    for name, way in WAYS.items():
        start = time.perf_counter()
        retriever = ExampleRetriever(examples, embedder if way.model else None, weights=way.weights)
        index_s = time.perf_counter() - start
        misses: list[str] = []
        asked = [(way.asked(query), expected) for query, expected in queries]
        metrics = {"index_s": index_s, **measure(retriever, asked, misses.append)}
        report[name] = metrics
        print(f"{name:17} " + "  ".join(f"{key} {value:.3f}" for key, value in metrics.items()) + f"  ({way.what})")
        if options.misses:
            print("\n".join(misses))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    run_benchmark(main)
