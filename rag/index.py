"""Vectors of the examples, stored in a file, searched with FAISS by inner product."""

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

FILE = "retrieval.faiss"
_FORMAT = 1


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
    """Return the index of these texts: from its file in `folder` if it matches these texts and this model, else built.

    A corrupt file is reported to `note` and replaced; so is a folder that cannot be written, and then the index is kept
    in memory only.
    """
    key = hashlib.sha256(json.dumps([_FORMAT, embedder.name, list(texts)]).encode()).hexdigest()
    path = folder / FILE if folder else None
    index = _read(path, key, len(texts), note) if path else None
    if index is None:
        index = _build(texts, embedder)
        if path:
            try:
                write_whole(path, _packed(index, key), "the examples are embedded again at each start")
            except ResultsError as error:
                note(str(error))
    return VectorIndex(index, embedder)


def _build(texts: Sequence[str], embedder: Embedder) -> Any:
    import faiss

    if not texts:
        return faiss.IndexFlatIP(1)
    vectors = embedder.encode(texts)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index


def _packed(index: Any, key: str) -> bytes:
    """Return a line with the key and a checksum, then FAISS's bytes."""
    import faiss

    data = faiss.serialize_index(index).tobytes()
    head = {"key": key, "sha256": hashlib.sha256(data).hexdigest()}
    return json.dumps(head).encode() + b"\n" + data


def _read(path: Path, key: str, count: int, note: Callable[[str], None]) -> Any | None:
    """Return the index in a file; None without one, or if it is of other texts, another model, or corrupt."""
    import faiss
    import numpy as np

    try:
        head, _, data = path.read_bytes().partition(b"\n")
        header = json.loads(head)
        if header["key"] != key:
            return None
        # Checked before FAISS sees it: its reader trusts the sizes in the file.
        if header["sha256"] != hashlib.sha256(data).hexdigest():
            raise ValueError("its checksum is wrong")
        index = faiss.deserialize_index(np.frombuffer(data, dtype=np.uint8))
        if index.ntotal != count:
            raise ValueError(f"it contains {index.ntotal} vectors for {count} texts")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, RecursionError) as error:
        note(f"the index {path} is corrupt ({error}) and is built again")
        return None
    return index
