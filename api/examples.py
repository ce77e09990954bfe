"""The worked examples: shipped ones, and what runs in a results folder have found."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from ..core import Hit, Query, Retriever
from ..core.files import memory_folder


class Examples:
    """Searched by meaning and by words.

    Loaded when they are first asked for: the embedding model takes seconds, and a resumed run may need none of it.
    """

    def __init__(self, results: Path, note: Callable[[str], None]) -> None:
        self._results = results
        self._note = note
        self._lock = threading.Lock()
        self._retriever: Retriever | None = None

    def search(self, query: Query, k: int) -> list[Hit]:
        """See `core.Retriever`."""
        with self._lock:
            if self._retriever is None:
                self._retriever = self._load()
        return self._retriever.search(query, k)

    def _load(self) -> Retriever:
        from ..corpus.examples import load_examples
        from ..rag import ExampleRetriever, load_embedder, run_examples

        examples = [*load_examples(self._note), *run_examples(self._results, self._note)]
        return ExampleRetriever(examples, load_embedder(self._note), memory_folder() / "examples", self._note)
