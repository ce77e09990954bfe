"""The worked examples: shipped ones, the user's own, and what earlier runs have found."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from ..core import Hit, Query, Retriever
from ..core.files import cache_folder
from .archive import EarlierRuns


class Examples:
    """Searched by meaning and by words.

    Loaded when they are first asked for: the embedding model takes seconds, and a resumed run may need none of it.
    """

    def __init__(self, earlier: EarlierRuns, own: Path, note: Callable[[str], None]) -> None:
        """`own` is a folder of examples beside the shipped ones, which may be missing."""
        self._earlier = earlier
        self._own = own
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

        examples = load_examples(self._note)
        if self._own.is_dir():
            examples += load_examples(self._note, self._own)
        examples += run_examples(self._earlier.runs(), self._note)
        return ExampleRetriever(examples, load_embedder(self._note), cache_folder() / "examples", self._note)
