"""Vectors of the examples: each is computed once and kept in a file; FAISS searches them by inner product."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import ResultsError
from ..core.files import write_whole
from .embeddings import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FILE = "retrieval.vectors"
KEPT = 20_000
"""Maximum number of cached vectors: those of other folders' texts are kept too."""

Vectors = dict[str, "NDArray[np.float32]"]
"""Each text's, by the text's digest."""


class VectorIndex:
    """An exact index of some texts: the inner product of vectors of length 1 is their cosine."""

    def __init__(self, index: Any, embedder: Embedder) -> None:
        self._index = index
        self._embedder = embedder

    def scores(self, query: str) -> NDArray[np.float32]:
        """Return the cosine of the query and each text, in their order."""
        import numpy as np

        scores = np.zeros(self._index.ntotal, dtype=np.float32)
        if self._index.ntotal:
            products, numbers = self._index.search(self._embedder.encode([query]), self._index.ntotal)
            scores[numbers[0]] = products[0]
        return scores


def open_index(
    texts: Sequence[str], embedder: Embedder, folder: Path | None, note: Callable[[str], None]
) -> VectorIndex:
    """Return the index of these texts; only those are embedded whose vectors are not in a file in `folder`.

    A corrupt file is reported to `note` and replaced; so is a folder that cannot be written, and then the vectors are
    kept in memory only.
    """
    import faiss
    import numpy as np

    path = folder / FILE if folder else None
    known = _read(path, embedder.name, note) if path else {}
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    new = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in known}
    if new:
        known |= zip(new, embedder.encode(list(new.values())), strict=True)
        if path:
            asked = set(digests)
            others = [digest for digest in known if digest not in asked]  # the oldest first
            kept = {digest: known[digest] for digest in (*others[max(0, len(known) - KEPT) :], *digests)}
            try:
                write_whole(path, _packed(embedder.name, kept), "the examples are embedded again at each start")
            except ResultsError as error:
                note(str(error))
    if not texts:
        return VectorIndex(faiss.IndexFlatIP(1), embedder)
    vectors = np.stack([known[digest] for digest in digests])
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return VectorIndex(index, embedder)


def _packed(model: str, vectors: Vectors) -> bytes:
    """Return a line with the model's name, the digests and a checksum, then the vectors one after the other."""
    import numpy as np

    data = np.stack(list(vectors.values())).astype(np.float32).tobytes()
    head = {"model": model, "digests": list(vectors), "sha256": hashlib.sha256(data).hexdigest()}
    return json.dumps(head).encode() + b"\n" + data


def _read(path: Path, model: str, note: Callable[[str], None]) -> Vectors:
    """Return the vectors in a file: none without one, or if it is of another model, or corrupt."""
    import numpy as np

    try:
        head, _, data = path.read_bytes().partition(b"\n")
        header = json.loads(head)
        if header["model"] != model:
            return {}
        if header["sha256"] != hashlib.sha256(data).hexdigest():
            raise ValueError("its checksum is wrong")
        digests = header["digests"]
        return dict(zip(digests, np.frombuffer(data, np.float32).reshape(len(digests), -1), strict=True))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        note(f"the index {path} is corrupt ({error}) and is built again")
        return {}
